import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { type BundleFiles, makeRelease, printRelease, readPath, sumsOf } from '@sluice/bundle';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { listExamples } from '../../../../tools/examples.ts';
import type { SluiceConfig } from '../render/model/config.ts';
import type { KubeObject } from '../render/model/kube.ts';
import { render } from '../render/render.ts';
import { readConfig } from './config/config.ts';
import { load } from './load.ts';
import { declaresSame, readReleaseServices } from './release-services.ts';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'sluice-release-services-'));
});
afterEach(() => rmSync(dir, { recursive: true }));

function rendered(change: readonly KubeObject[], config: SluiceConfig): BundleFiles {
  const input = { base: [], change, config, allocations: [], allocate: false, snapshot: true, strict: false };
  return render(input).files;
}

function writeRelease(files: BundleFiles): void {
  const release = makeRelease(files, { serial: 42, source: 'c'.repeat(40) });
  if (!('serial' in release)) throw new Error(JSON.stringify(release));
  const text = printRelease(release);
  for (const [path, content] of [...files, ['release.yaml', text], ['SHA256SUMS', sumsOf(files, text)]] as const) {
    mkdirSync(dirname(join(dir, path)), { recursive: true });
    writeFileSync(join(dir, path), content);
  }
}

/** The objects and the config of an example. */
function exampleOf(input: string, config: string | undefined) {
  const sources = readdirSync(input, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.yaml'))
    .map((file) => ({ file, text: readFileSync(join(input, file), 'utf8') }));
  const { objects, kubeProxy } = load(sources);
  const sluice = config === undefined ? {} : { sluice: { file: config, text: readFileSync(config, 'utf8') } };
  return { objects, config: readConfig({ ...sluice, kubeProxy }).config };
}

const servicesIn = (files: BundleFiles, profile: string): BundleFiles =>
  new Map(
    [...files].filter(([path]) => {
      const what = readPath(path);
      return what?.kind === 'service' && what.profile === profile;
    }),
  );

// Services of the Git example have their numbers in allocation files.
const examples = listExamples().filter(({ name }) => name !== '08-git' && name !== 'gitops');

test.each(examples)('examples/$name: what a release declares of its Services renders to the same rules', (example) => {
  const { objects, config } = exampleOf(example.input, example.config);
  const files = rendered(objects, config);
  writeRelease(files);
  const nodes = objects.filter(({ kind }) => kind === 'Node').map(({ value }) => value['metadata'] as { name: string });
  expect(nodes.length).toBeGreaterThan(0);
  for (const { name } of nodes) {
    const found = readReleaseServices(dir, name);
    if ('code' in found) throw new Error(found.message);
    const others = objects.filter(({ kind }) => kind !== 'Service');
    const again = rendered([...others, ...found.services.values()], config);
    expect(found.name).toBe('release 42');
    expect(servicesIn(again, found.profile)).toEqual(servicesIn(files, found.profile));
    const texts = new Map([...found.files.values()].flatMap((its) => [...its]));
    expect(texts).toEqual(servicesIn(files, found.profile));
  }
});

const [first] = examples;
const written = (): void => {
  const { objects, config } = exampleOf(first?.input ?? '', first?.config);
  writeRelease(rendered(objects, config));
};
const service = 'profiles/default/services/shop/web.iptables';

test.each<readonly [string, () => void, string]>([
  ['no SHA256SUMS', () => rmSync(join(dir, 'SHA256SUMS')), 'SHA256SUMS is missing'],
  ['a file of a Service that is changed', () => writeFileSync(join(dir, service), '*nat\nCOMMIT\n'), service],
  ['a file of a Service that is missing', () => rmSync(join(dir, service)), service],
  ['another release.yaml', () => writeFileSync(join(dir, 'release.yaml'), 'format: 1\n'), 'release.yaml'],
])('reads nothing of a directory with %s', (_title, change, named) => {
  written();
  change();
  expect(readReleaseServices(dir, 'node-1')).toMatchObject({
    code: 'RELEASE_INVALID',
    message: expect.stringContaining(named),
  });
});

test('says that a release does not have the node', () => {
  written();
  expect(readReleaseServices(dir, 'node-9')).toMatchObject({ code: 'RELEASE_ELSEWHERE' });
});

test('two files declare the same Service, whatever its endpoints', () => {
  const file = (port: number, ...endpoints: readonly string[]): string =>
    [
      '# shop/web ClusterIP',
      `# 10.96.0.1: http ${port}/TCP`,
      ...endpoints.map((one) => `# endpoint http ${one}`),
      '*nat\n',
    ].join('\n');
  expect(declaresSame(file(80, '10.244.1.5:8080 node-1'), file(80))).toBe(true);
  expect(declaresSame(file(80), file(81))).toBe(false);
});
