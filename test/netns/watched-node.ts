import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { atTier } from '@sluice/testing';
import { afterEach, beforeEach } from 'vitest';
import { token } from '../cluster/apiserver.fixture.ts';
import { LiveCluster } from '../cluster/live.fixture.ts';
import { outputOf, type Started, startSluice } from '../cluster/program.fixture.ts';
import { oneInTurn } from '../one-in-turn.ts';
import { node, withNode } from './node-of-test.ts';
import { type dataPlanes, layoutPlanes } from './sluiced-node.ts';

/** From an API server over `sluice watch` to the kernel of a node: what each test has, from the hooks of `watchedNode`. */
export { node };
export let api: LiveCluster;
let watching: Started | undefined;

/** Sets the hooks of a file of tests. */
export function watchedNode(): void {
  withNode();
  beforeEach(async () => {
    api = await LiveCluster.start();
  });
  afterEach(async () => {
    await endWatch();
    await api.server.close();
  });
}

/** A path in the folder of the node. */
export const path = (name: string): string => join(node.directory, name);

/** Options of verbs that read the API server. */
export const fromCluster = (): readonly string[] => [
  '--kubeconfig',
  api.server.kubeconfig({ token }),
  '-c',
  path('sluice.yaml'),
];

/** Starts `sluice watch`; it ends with the test at the latest. @returns its output up to now */
export function watch(...options: readonly string[]): () => string {
  watching = startSluice(['watch', ...options, ...fromCluster()]);
  return outputOf(watching);
}

export async function endWatch(): Promise<void> {
  watching?.kill('SIGTERM');
  await watching;
  watching = undefined;
}

type Plane = (typeof dataPlanes)[number];

/** Those of mode iptables on nf_tables and of mode nftables by turns, unless there is time. @param name of the tests */
export const watchedPlanes = (name: string): readonly Plane[] =>
  atTier<readonly Plane[]>({
    quick: oneInTurn(
      layoutPlanes.filter(({ backend, layout }) => backend === 'nft' && layout === 'tree'),
      name,
    ),
    all: layoutPlanes,
  });

/** Writes both configs, and gives the cluster its Nodes. @param more of `sluiced.yaml` */
export function configure({ backend, layout, mode }: Plane, more = ''): void {
  node.writeConfig(backend, `layout: ${layout}\n${more}`);
  const profile = `{name: default, mode: ${mode}, families: [ipv4], clusterCIDR: 10.244.0.0/16, conntrack: {maxPerCore: 0}}`;
  writeFileSync(
    path('sluice.yaml'),
    `apiVersion: sluice.dev/v1alpha1\nkind: SluiceConfig\nserviceCIDRs: [10.96.0.0/12]\nprofiles: [${profile}]\n`,
  );
  for (const [at, name] of ['node-a', 'node-b'].entries())
    api.put('nodes', {
      metadata: { name, labels: {} },
      spec: { podCIDR: `10.244.${at}.0/24`, podCIDRs: [`10.244.${at}.0/24`] },
      status: { addresses: [{ type: 'InternalIP', address: `192.0.2.${at + 11}` }], capacity: { cpu: '2' } },
    });
}

/** The address of a pod. */
export const pod = (n: number): string => `10.244.1.${n}`;

export function putService(n: number): void {
  api.put('services', {
    metadata: { name: `s${n}`, namespace: 'shop' },
    spec: { clusterIP: `10.96.0.${n}`, clusterIPs: [`10.96.0.${n}`], ports: [{ port: 80, protocol: 'TCP' }] },
  });
}

export function putEndpoints(n: number, ...addresses: readonly string[]): void {
  api.put('endpointslices', {
    metadata: { name: `s${n}-1`, namespace: 'shop', labels: { 'kubernetes.io/service-name': `s${n}` } },
    addressType: 'IPv4',
    endpoints: addresses.map((address) => ({ addresses: [address], conditions: { ready: true }, nodeName: 'node-b' })),
    ports: [{ name: '', port: 8080, protocol: 'TCP' }],
  });
}
