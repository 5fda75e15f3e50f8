// @module-tag test
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { makeKey } from '@sluice/testing';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { sluice } from '../../packages/sluice/src/in-process.fixture.ts';
import { FakeRegistry } from '../registry/fake.fixture.ts';
import { token } from './apiserver.fixture.ts';
import { LiveCluster } from './live.fixture.ts';
import { node, serviceOf, slice } from './objects.fixture.ts';
import { outputOf, type Started, startSluice, until } from './program.fixture.ts';

/** `sluice watch --push oci://…`: each publication becomes a release in a registry. */

let cluster: LiveCluster;
let registry: FakeRegistry;
let dir: string;
const at = (name: string): string => join(dir, name);
const started: Started[] = [];
let isAway = false;

beforeEach(async () => {
  isAway = false;
  cluster = await LiveCluster.start();
  registry = await FakeRegistry.open({
    referrers: true,
    instead: (request) => isAway && (request.socket.destroy(), true),
  });
  dir = mkdtempSync(join(tmpdir(), 'sluice-watch-push-'));
  mkdirSync(at('docker'));
  cluster.put('services', serviceOf('a', 1));
  cluster.put('endpointslices', slice);
  cluster.put('nodes', node);
  writeFileSync(at('allowed_signers'), `watch namespaces="sluice-release" ${makeKey(at('key'))}\n`);
});
afterEach(async () => {
  for (const one of started.splice(0)) await end(one);
  registry.close();
  await cluster.server.close();
  rmSync(dir, { recursive: true });
});

const target = (): string => `${registry.host}/sluice/shop:production`;

function watch(...more: readonly string[]): { readonly watching: Started; readonly said: () => string } {
  const args = ['watch', '-o', at('rendered'), '--kubeconfig', cluster.server.kubeconfig({ token })];
  const watching = startSluice([...args, '--push', `oci://${target()}`, ...more], dir);
  started.push(watching);
  return { watching, said: outputOf(watching) };
}

async function end(watching: Started): Promise<void> {
  watching.kill('SIGTERM');
  await watching;
}

/** The number of releases that were pushed. */
const pushes = (said: () => string): number => said().split('pushed release ').length - 1;
/** The newest release, as a node reads it: path → text, and what verifies it. */
async function newest(): Promise<{ readonly release: string; readonly verdict: string }> {
  const out = at(`pulled-${registry.seen.length}`);
  const { digest } = { digest: tagged() };
  const pulled = await sluice('pull', `${registry.host}/sluice/shop@${digest}`, '-o', out);
  expect(pulled.status).toBe(0);
  const verified = await sluice('verify', out, '--allowed-signers', at('allowed_signers'));
  return { release: readFileSync(join(out, 'release.yaml'), 'utf8'), verdict: verified.stdout + verified.stderr };
}
const tagged = (): string => {
  const bytes = registry.manifests.get('production')?.bytes.toString('utf8') ?? '';
  return [...registry.manifests].find(([name, one]) => name !== 'production' && String(one.bytes) === bytes)?.[0] ?? '';
};

test('each change of the cluster is a signed release with the next serial', async () => {
  const { said } = watch('--key', at('key'));
  await until(() => pushes(said) === 1);
  expect(said()).toMatch(/pushed release 1 of \S+ as \S+\/sluice\/shop:production \(sha256:[0-9a-f]{64}\), signed\n/);
  expect(await newest()).toMatchObject({
    release: expect.stringContaining('serial: 1\n'),
    verdict: expect.stringMatching(/signed by +watch\n/),
  });
  cluster.put('services', serviceOf('b', 2));
  await until(() => pushes(said) === 2);
  expect(await newest()).toMatchObject({
    release: expect.stringContaining('serial: 2\n'),
    verdict: expect.stringMatching(/signed by +watch\n/),
  });
}, 60_000);

test('a restart pushes nothing that is there, and continues the serials', async () => {
  const first = watch('--key', at('key'));
  await until(() => pushes(first.said) === 1);
  await end(first.watching);
  const before = tagged();
  const second = watch('--key', at('key'));
  await until(() => second.said().includes('is up to date with'));
  cluster.put('services', serviceOf('b', 2));
  await until(() => pushes(second.said) === 1);
  expect(tagged()).not.toBe(before);
  expect(second.said()).toContain('pushed release 2 ');
}, 60_000);

test('without a key a release is not signed, and one with a key follows it', async () => {
  const first = watch();
  await until(() => pushes(first.said) === 1);
  expect(first.said()).toContain('not signed: nodes wait for');
  expect((await newest()).verdict).toContain('RELEASE_UNSIGNED');
  await end(first.watching);
  const second = watch('--key', at('key'));
  await until(() => pushes(second.said) === 1);
  expect(await newest()).toMatchObject({
    release: expect.stringContaining('serial: 2\n'),
    verdict: expect.stringMatching(/signed by +watch\n/),
  });
}, 60_000);

test('a registry that is away raises an alarm and gets the newest state later', async () => {
  isAway = true;
  const { said } = watch('--key', at('key'));
  await until(() => said().includes('COMMIT: Cannot push a release to'), 40_000);
  cluster.put('services', serviceOf('b', 2));
  isAway = false;
  await until(() => pushes(said) === 1, 40_000);
  expect((await newest()).release).toContain('serial: 1\n');
}, 120_000);

test('does not replace the releases of another cluster', async () => {
  writeFileSync(at('one.yaml'), 'apiVersion: sluice.dev/v1alpha1\nkind: SluiceConfig\nclusterName: one\n');
  writeFileSync(at('two.yaml'), 'apiVersion: sluice.dev/v1alpha1\nkind: SluiceConfig\nclusterName: two\n');
  const first = watch('--key', at('key'), '-c', at('one.yaml'));
  await until(() => pushes(first.said) === 1);
  await end(first.watching);
  const before = tagged();
  const second = watch('--key', at('key'), '-c', at('two.yaml'));
  await until(() => second.said().includes('the tag has a release of cluster one, and this is two'), 40_000);
  expect(tagged()).toBe(before);
}, 90_000);

test.each([
  ['a key that is missing', ['--key', 'nowhere'], 'Cannot sign releases with nowhere'],
  ['commits as well', ['--commit'], 'Cannot push: a registry gets releases'],
])(
  'is refused with %s',
  async (_title, more, says) => {
    const { watching, said } = watch(...more);
    expect(await watching).toMatchObject({ exitCode: 2 });
    expect(said()).toContain(says);
    expect(registry.seen).toEqual([]);
  },
  60_000,
);
