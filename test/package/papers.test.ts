// @module-tag all
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { artefact, packages, unpackDeb } from './unpack.fixture.ts';

const doc = 'usr/share/doc/sluice';
const docs = join(import.meta.dirname, '../../docs');

test('the parts list and the licence texts name the same parts, each with a text', (context) => {
  if (packages.whyNot) return context.skip(packages.whyNot);
  const list = JSON.parse(readFileSync(artefact('.cdx.json'), 'utf8')) as { components: { purl: string }[] };
  const parts = list.components.map(({ purl }) => decodeURIComponent(/^pkg:[a-z]+\/([^?]+)/.exec(purl)?.[1] ?? purl));
  const texts = readFileSync(join(unpackDeb('amd64'), doc, 'THIRD-PARTY-LICENSES'), 'utf8').split(/^=+\n(.+)\n=+\n/m);
  const named = texts.filter((_text, index) => index % 2 === 1).map((name) => name.replace(/\(.*$/, ''));
  const npm = parts.filter((part) => !/^(node-(bin-)?(linux|darwin)-|libatomic@|debian\/)/.test(part));
  expect(named.toSorted()).toEqual(['Node.js', 'libatomic', ...npm].toSorted());
  expect(texts.filter((text, index) => index % 2 === 0 && index > 0 && text.trim().length < 200)).toEqual([]);
});

test('the package has the documents for nodes without a network, unchanged', (context) => {
  if (packages.whyNot) return context.skip(packages.whyNot);
  const root = unpackDeb('amd64');
  const names = readdirSync(join(docs, 'runbooks'));
  expect(names).toContain('halted.md');
  const papers = [
    'install.md',
    'render.md',
    'review.md',
    'cluster.md',
    'release.md',
    'apply.md',
    'limits.md',
    'limits-review.md',
    'limits-node.md',
    'limits-modes.md',
    'performance.md',
    'glossary.md',
    'threats.md',
    'problems.md',
    'policy.md',
    'alerts.md',
    'exit-codes.md',
    'kube-proxy-versions.md',
    ...names.map((one) => `runbooks/${one}`),
  ];
  const textsIn = (folder: string): object =>
    Object.fromEntries(papers.map((name) => [name, readFileSync(join(folder, name), 'utf8')]));
  expect(textsIn(join(root, doc))).toEqual(textsIn(docs));
});
