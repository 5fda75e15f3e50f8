// @module-tag test
import { writeFileSync } from 'node:fs';
import { makeKey, programPath } from '@sluice/testing';
import { execa } from 'execa';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { token } from '../cluster/apiserver.fixture.ts';
import { LiveCluster } from '../cluster/live.fixture.ts';
import { node as nodeA, serviceOf, slice } from '../cluster/objects.fixture.ts';
import { FakeRegistry } from '../registry/fake.fixture.ts';
import { needBackend, needKernel } from './privileges.ts';
import { SluicedNode, until } from './sluiced-node.ts';

/** From an API server to the kernel of a node that cannot reach it: `sluice watch --push`, a registry, `sluiced fetch`, `sluiced run`. */

let node: SluicedNode;
let api: LiveCluster;
let registry: FakeRegistry;
const programs: ReturnType<typeof start>[] = [];
beforeEach(needKernel);
beforeEach((context) => needBackend(context, 'nft'));
beforeEach(async () => {
  [node, api] = [await SluicedNode.make(), await LiveCluster.start()];
  registry = await FakeRegistry.open({ referrers: true });
});
afterEach(async () => {
  for (const program of programs.splice(0)) {
    program.kill('SIGTERM');
    await program;
  }
  registry.close();
  await api.server.close();
  await node.remove();
});

const start = (program: 'sluice' | 'sluiced', ...args: readonly string[]) =>
  execa(programPath(program), args, { reject: false });

const endpoints = (...addresses: readonly string[]) => ({
  ...slice,
  endpoints: addresses.map((address) => ({
    addresses: [address],
    conditions: { ready: true },
    nodeName: 'node-a',
  })),
});

test('a changed endpoint goes from the API server through a registry into the kernel', {
  timeout: 150_000,
}, async () => {
  const at = (name: string): string => `${node.directory}/${name}`;
  writeFileSync(at('allowed_signers'), `watch namespaces="sluice-release" ${makeKey(at('key'))}\n`);
  writeFileSync(
    at('sluiced.yaml'),
    `apiVersion: sluice.dev/v1alpha1
kind: SluicedConfig
node: node-a
state: ${at('state')}
backend: nft
probation: { seconds: 0 }
signatures: { allowedSigners: ${at('allowed_signers')} }
source: { oci: { reference: "${registry.host}/sluice/shop:production" }, directory: ${at('fetched')}, intervalSeconds: 1 }
`,
  );
  // A namespace cannot set the limit of the whole machine.
  const profile = '{ name: default, clusterCIDR: 10.244.0.0/16, conntrack: { maxPerCore: 0 } }';
  writeFileSync(at('sluice.yaml'), `apiVersion: sluice.dev/v1alpha1\nkind: SluiceConfig\nprofiles: [${profile}]\n`);
  api.put('nodes', nodeA);
  api.put('services', serviceOf('a', 1));
  api.put('endpointslices', endpoints('10.244.1.5'));
  const reference = `oci://${registry.host}/sluice/shop:production`;
  const input = ['-c', at('sluice.yaml'), '--kubeconfig', api.server.kubeconfig({ token })];
  programs.push(
    start('sluice', 'watch', ...input, '-o', at('out'), '--push', reference, '--key', at('key')),
    start('sluiced', 'fetch', '-c', at('sluiced.yaml')),
  );
  node.start();
  const serves = async (...addresses: readonly string[]): Promise<void> => {
    const served = addresses.map((address) => `${address}:8080`).join();
    await until(
      `the node serves ${served}`,
      async () => {
        const found = await node.endpoints({ backend: 'nft', mode: 'iptables' });
        return found.join() === served;
      },
      60_000,
    );
  };
  await serves('10.244.1.5');
  api.put('endpointslices', endpoints('10.244.1.5', '10.244.1.6'));
  await serves('10.244.1.5', '10.244.1.6');
  api.put('endpointslices', endpoints('10.244.1.6'));
  await serves('10.244.1.6');
  const { stdout } = await node.sluiced('status');
  expect(stdout).toMatch(/^release +serial 3, signed by watch$/m);
});
