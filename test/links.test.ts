import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { assemble, assembleAll } from '../tools/docs/assemble.ts';
import { anchorsOf, linksOf } from '../tools/docs/markdown.ts';
import { allPages } from '../tools/docs/pages.ts';

const root = join(import.meta.dirname, '..');
const tracked = execFileSync('git', ['-C', root, 'ls-files', '-co', '--exclude-standard', '*.md'], {
  encoding: 'utf8',
});
const files = tracked.split('\n').filter((path) => path !== '' && existsSync(join(root, path)));

/** Why a link leads nowhere; undefined where it leads somewhere, or outside of the repository, where nobody looks. */
function broken(file: string, text: string, target: string): string | undefined {
  if (/^[a-z]+:/.test(target)) return undefined;
  const [path = '', anchor] = decodeURI(target).split('#');
  const there = path === '' ? join(root, file) : join(root, dirname(file), path);
  if (!existsSync(there)) return 'there is no such file';
  if (anchor === undefined) return undefined;
  const aimed = path === '' ? text : readFileSync(there, 'utf8');
  return anchorsOf(aimed).includes(anchor) ? undefined : 'there is no such heading';
}

test.each(files)('the links of %s lead to files and headings', (file) => {
  const text = readFileSync(join(root, file), 'utf8');
  const wrong = linksOf(text).flatMap(({ line, target }) => {
    const why = broken(file, text, target);
    return why === undefined ? [] : [`${file}:${line}: ${target}: ${why}`];
  });
  expect(wrong).toEqual([]);
});

test('no tracked file is a symbolic link, which would lead to a place of one machine', () => {
  const entries = execFileSync('git', ['-C', root, 'ls-files', '-s'], { encoding: 'utf8' }).split('\n');
  expect(entries.filter((entry) => entry.startsWith('120000 '))).toEqual([]);
});

describe('the reader of Markdown', () => {
  test('finds links in prose, in tables and around code, and none in code and comments', () => {
    const text = [
      'See [a](a.md) and [`b`](b/#c), not `[d](d.md)`.',
      '```sh',
      '[e](e.md)',
      '```',
      '<!-- [f](f.md) -->',
      '| [g](#h) | ![i](i.png) |',
    ].join('\n');
    expect(linksOf(text).map(({ line, label, target }) => [line, label, target])).toEqual([
      [1, 'a', 'a.md'],
      [1, '`b`', 'b/#c'],
      [6, 'g', '#h'],
      [6, 'i', 'i.png'],
    ]);
  });

  test('names headings as GitHub does', () => {
    const text = '# `sluice show`, twice\n## A\n```\n# no heading\n```\n## A\n## [One](two.md) – 3_4\n';
    expect(anchorsOf(text)).toEqual(['sluice-show-twice', 'a', 'a-1', 'one--3_4']);
  });

  test('sees a link that leads nowhere', () => {
    expect(broken('docs/problems.md', '# Here\n', '#here')).toBeUndefined();
    expect(broken('docs/problems.md', '# Here\n', '#there')).toBe('there is no such heading');
    expect(broken('docs/problems.md', '', '../README.md')).toBeUndefined();
    expect(broken('docs/problems.md', '', 'README.txt')).toBe('there is no such file');
    expect(broken('docs/problems.md', '', '../test/README.md#no-such-heading')).toBe('there is no such heading');
  });
});

describe('the site', () => {
  /** For those who change Sluice. */
  const forDevelopers = ['docs/nightly.md'];

  test('has every page of docs', () => {
    const sources = new Set(allPages.flatMap(({ sources: own }) => own));
    const left = files.filter(
      (file) => file.startsWith('docs/') && !sources.has(file) && !forDevelopers.includes(file),
    );
    expect(left).toEqual([]);
  });

  test('has no two pages at one place', () => {
    expect(new Set(allPages.map(({ path }) => path)).size).toBe(allPages.length);
  });

  test('puts files on one page, with the headings of the later ones a level lower, and code as it is', () => {
    const first = ['docs/adopt.md', '# Moving\n\n## One node\n'] as const;
    const later = ['docs/runbooks/adopt-node.md', '# By one command\n\n```sh\n# a comment\n```\n\n## Gates\n'] as const;
    expect(assembleAll([first, later])).toBe(
      '# Moving\n\n## One node\n\n## By one command\n\n```sh\n# a comment\n```\n\n### Gates\n',
    );
    expect(assemble('[by hand](runbooks/from-kube-proxy.md)', 'docs/adopt.md')).toBe(
      '[by hand](/how-to/adopt.md#moving-a-node-from-kube-proxy)',
    );
  });

  test('leads links to its own pages, and leaves those to other files as text', () => {
    const text =
      '<!-- after: x.md -->\nSee [layouts](../layouts.md#flat), [the code](../../packages) and [here](#a).\n';
    expect(assemble(text, 'docs/explanation/transaction.md')).toBe(
      'See [layouts](/explanation/layouts.md#flat), the code and [here](#a).\n',
    );
  });
});
