// @module-tag all
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { programPath } from '@sluice/testing';
import { execa } from 'execa';
import { beforeEach, expect, test } from 'vitest';
import { type ApiObject, token } from '../cluster/apiserver.fixture.ts';
import { LiveCluster } from '../cluster/live.fixture.ts';
import { DemoNode } from '../demo/node.ts';
import { waitFor } from '../demo/wait.ts';
import { type Cluster, type ClusterSpec, openCluster } from './cluster.ts';
import { needKernel } from './privileges.ts';

beforeEach(needKernel);

const spec: ClusterSpec = {
  nodes: [
    { name: 'node-1', addresses: ['192.0.2.11'], podCIDRs: ['10.244.1.0/24'] },
    { name: 'node-2', addresses: ['192.0.2.12'], podCIDRs: ['10.244.2.0/24'] },
  ],
  pods: [
    { name: 'web-1', node: 'node-1', addresses: ['10.244.1.5'], ports: ['8080/tcp'] },
    { name: 'web-2', node: 'node-2', addresses: ['10.244.2.5'], ports: ['8080/tcp'] },
    { name: 'client-1', node: 'node-1', addresses: ['10.244.1.9'], ports: [] },
    { name: 'client-2', node: 'node-2', addresses: ['10.244.2.9'], ports: [] },
  ],
  outside: ['198.51.100.10'],
};
const vip = '10.96.0.10';
const clients = ['client-1', 'client-2'];

const config = `apiVersion: sluice.dev/v1alpha1
kind: SluiceConfig
profiles:
  - name: default
    families: [ipv4]
    clusterCIDR: 10.244.0.0/16
    conntrack: { maxPerCore: 0 }
`;

function nodes(): ApiObject[] {
  return spec.nodes.map(({ name, addresses: [address], podCIDRs }) => ({
    metadata: { name, labels: {} },
    spec: { podCIDR: podCIDRs[0], podCIDRs },
    status: { addresses: [{ type: 'InternalIP', address }], capacity: { cpu: '2' } },
  }));
}
const service: ApiObject = {
  metadata: { name: 'web', namespace: 'shop' },
  spec: {
    clusterIP: vip,
    clusterIPs: [vip],
    selector: { app: 'web' },
    ports: [{ name: 'http', port: 80, protocol: 'TCP' }],
  },
};
function endpoints(...pods: readonly string[]): ApiObject {
  const of = spec.pods.filter(({ name }) => pods.includes(name));
  return {
    metadata: { name: 'web-1', namespace: 'shop', labels: { 'kubernetes.io/service-name': 'web' } },
    addressType: 'IPv4',
    endpoints: of.map(({ addresses, node }) => ({ addresses, conditions: { ready: true }, nodeName: node })),
    ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
  };
}

/** The pods that answer a client at the VIP, in so many connections. */
async function answering(cluster: Cluster, client: string, connections: number): Promise<readonly string[]> {
  const replies = Array.from({ length: connections }, () =>
    cluster.host(client).connect({ protocol: 'tcp', to: vip, port: 80, timeoutMs: 2_000 }),
  );
  const seen = (await Promise.all(replies)).map((reply) => (reply.kind === 'answer' ? reply.answer : reply.kind));
  return [...new Set(seen)].toSorted();
}

test('endpoints that the API removes or adds are removed or added on every node', async () => {
  const api = await LiveCluster.start();
  const dir = mkdtempSync(join(tmpdir(), 'sluice-follow-'));
  await using cluster = await openCluster(spec);
  const bundle = join(dir, 'rendered');
  writeFileSync(join(dir, 'sluice.yaml'), config);
  for (const item of nodes()) api.put('nodes', item);
  api.put('services', service);
  api.put('endpointslices', endpoints('web-1', 'web-2'));
  const kubeconfig = api.server.kubeconfig({ token });
  const sluice = programPath('sluice');
  const args = ['watch', '-o', bundle, '-c', join(dir, 'sluice.yaml'), '--kubeconfig', kubeconfig];
  const watching = execa(sluice, args, { reject: false, all: true });
  const probe = { name: 'web', http: `http://${vip}:80/` };
  const members = spec.nodes.map(
    ({ name }) => new DemoNode(cluster.host(name), dir, bundle, probe, { sluiced: programPath('sluiced') }),
  );
  const reached = async (client: string, pods: string): Promise<void> => {
    await waitFor(`${client} reaches ${pods} and no other pod`, 40_000, async () =>
      (await answering(cluster, client, 24)).join() === pods ? true : undefined,
    );
  };
  try {
    for (const member of members) member.start();
    for (const client of clients) await reached(client, 'web-1,web-2');
    api.put('endpointslices', endpoints('web-1'));
    for (const client of clients) await reached(client, 'web-1');
    api.put('endpointslices', endpoints('web-2'));
    for (const client of clients) await reached(client, 'web-2');
    // While the API is away the rules stay.
    api.server.intercept = (_path, request) => (request.socket.destroy(), true);
    api.drop();
    for (const client of clients) expect(await answering(cluster, client, 24)).toEqual(['web-2']);
  } finally {
    for (const member of members) await member.stop();
    watching.kill('SIGTERM');
    await watching;
    await api.server.close();
    rmSync(dir, { recursive: true, force: true });
  }
}, 180_000);
