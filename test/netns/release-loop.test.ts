// @module-tag all
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeKey, programPath } from '@sluice/testing';
import { execa } from 'execa';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { startApiServer, type TestApiServer, token } from '../cluster/apiserver.fixture.ts';
import { node as nodeA, serviceOf, slice } from '../cluster/objects.fixture.ts';
import { needBackend, needKernel } from './privileges.ts';
import { SluicedNode, until } from './sluiced-node.ts';

/** The pipeline of the rig, `conformance/inside/releases.sh`, with one node: signed releases of a cluster, opened by receipts. */

let node: SluicedNode;
let server: TestApiServer;
let pipeline: ReturnType<typeof start> | undefined;
const start = (...argv: readonly string[]) =>
  execa('unshare', ['--pid', '--fork', '--kill-child', 'timeout', '400', ...argv], { reject: false });
beforeEach(needKernel);
beforeEach((context) => needBackend(context, 'nft'));
beforeEach(async () => {
  [node, server] = [await SluicedNode.make(), await startApiServer()];
});
afterEach(async () => {
  pipeline?.kill('SIGKILL');
  await pipeline;
  await node.remove();
  await server.close();
});

const at = (name: string): string => join(node.directory, name);

/** Makes a key. @returns its line of `allowed_signers` */
const keyOf = (name: 'release' | 'wave'): string =>
  `${name} namespaces="sluice-${name}" ${makeKey(at(`work/${name}-key`))}\n`;

const numbers = (first: number): readonly number[] => Array.from({ length: 12 }, (_one, index) => first + index);
const pod = (n: number): string => `10.244.1.${n}`;

/** These Services, with an endpoint each, and no others. */
function have(chosen: readonly number[]): void {
  server.objects.set(
    'services',
    chosen.map((n) => serviceOf(`s${n}`, n)),
  );
  const slices = chosen.map((n) => ({
    ...slice,
    metadata: { name: `s${n}-1`, namespace: 'shop', labels: { 'kubernetes.io/service-name': `s${n}` } },
    endpoints: [{ addresses: [pod(n)], conditions: { ready: true }, nodeName: 'node-a' }],
  }));
  server.objects.set('endpointslices', slices);
}

const serves = (chosen: readonly number[]): Promise<unknown> =>
  until(
    `the node serves ${chosen[0]} to ${chosen.at(-1)}`,
    async () => {
      const found = await node.endpoints({ backend: 'nft', mode: 'iptables' });
      return (
        found.toSorted().join() ===
        chosen
          .map((n) => `${pod(n)}:8080`)
          .toSorted()
          .join()
      );
    },
    180_000,
  );

test('a release follows another one while all Services of the cluster are replaced at once', {
  timeout: 400_000,
}, async () => {
  for (const folder of ['work/origin', 'work/store']) mkdirSync(at(folder), { recursive: true });
  writeFileSync(at('allowed_signers'), keyOf('release') + keyOf('wave'));
  writeFileSync(
    at('sluiced.yaml'),
    `apiVersion: sluice.dev/v1alpha1
kind: SluicedConfig
node: node-a
state: ${at('state')}
backend: nft
signatures: { allowedSigners: ${at('allowed_signers')} }
source: { dir: { path: ${at('work/origin/release')} }, directory: ${at('fetched')}, intervalSeconds: 1 }
receipts: { directory: ${at('receipts')}, push: { dir: { path: ${at('work/store')} }, intervalSeconds: 1 } }
`,
  );
  writeFileSync(at('work/allowed_receipts'), `${(await node.sluiced('keygen')).stdout}\n`);
  const waves = 'waves: [{ name: canary, nodes: [node-a] }, { name: others, nodes: rest }]';
  writeFileSync(at('work/waves.yaml'), `apiVersion: sluice.dev/v1alpha1\nkind: Waves\n${waves}\n`);
  const profile = '{ name: default, clusterCIDR: 10.244.0.0/16, conntrack: { maxPerCore: 0 } }';
  writeFileSync(at('sluice.yaml'), `apiVersion: sluice.dev/v1alpha1\nkind: SluiceConfig\nprofiles: [${profile}]\n`);
  server.objects.set('nodes', [nodeA, { ...nodeA, metadata: { name: 'node-b', labels: {} } }]);
  have(numbers(20));

  const program = [process.execPath, programPath('sluice')];
  const render = [...program, 'render', '--from-cluster', '-c', at('sluice.yaml')];
  const script = join(import.meta.dirname, '../conformance/inside/releases.sh');
  const argv = ['sh', script, at('work'), ...program, ...render, '--kubeconfig', server.kubeconfig({ token })];
  // Outside of the node, where the API server is; all that it starts ends with it.
  pipeline = start(...argv);
  let said = '';
  pipeline.stdout.on('data', (chunk: Buffer) => (said += String(chunk)));
  node.startProgram([process.execPath, programPath('sluiced'), 'fetch', '-c', at('sluiced.yaml')]);
  node.start();
  await serves(numbers(20));
  have(numbers(60));
  await serves(numbers(60));
  await until('the last wave of each is open', async () => /release 2: open after/.test(said), 60_000);
  expect(said).not.toMatch(/no release|not signed|did not confirm/);
});
