// `sluice watch` and two nodes with `sluiced run`: from a change at the API to the first new connection that the kernel sends elsewhere.
import { execa } from 'execa';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type ApiObject, token } from '../cluster/apiserver.fixture.ts';
import { LiveCluster } from '../cluster/live.fixture.ts';
import { DemoNode } from '../demo/node.ts';
import { waitFor } from '../demo/wait.ts';
import { type Cluster, type ClusterSpec, openCluster } from '../netns/cluster.ts';
import { clusterList } from './data.ts';
import { percentile, report } from './measure.ts';

/** The figure is for a cluster of this size; SLUICE_BENCH_SERVICES makes it smaller for a quick run. */
const services = Number(process.env['SLUICE_BENCH_SERVICES'] ?? 10_000);
/** One in a hundred may be slower than the target; so many are needed to tell. */
const changes = Number(process.env['SLUICE_BENCH_CHANGES'] ?? 120);
/** Fewer: a release is on probation for ten seconds. */
const hastyChanges = Math.ceil(changes / 4);
/** The default of `sluiced.yaml`. */
const scanSeconds = 30;
const firstLoadMs = 900_000;
const changeMs = 60_000;
const vip = '10.111.0.10';

const spec: ClusterSpec = {
  nodes: [
    { name: 'node-1', addresses: ['192.0.2.11'], podCIDRs: ['10.255.1.0/24'] },
    { name: 'node-2', addresses: ['192.0.2.12'], podCIDRs: ['10.255.2.0/24'] },
  ],
  pods: [
    { name: 'web-1', node: 'node-1', addresses: ['10.255.1.5'], ports: ['8080/tcp'] },
    { name: 'web-2', node: 'node-2', addresses: ['10.255.2.5'], ports: ['8080/tcp'] },
  ],
  outside: ['198.51.100.10'],
};

// The conntrack limits belong to the machine: a network namespace cannot write them.
const config = `apiVersion: sluice.dev/v1alpha1
kind: SluiceConfig
profiles:
  - name: default
    families: [ipv4]
    clusterCIDR: 10.128.0.0/9
    conntrack: { maxPerCore: 0 }
`;

/** Needs root. @param sluice the program to measure */
export async function kernelBench(sluice: string): Promise<void> {
  if (process.getuid?.() !== 0) {
    process.stdout.write('from the API to the kernel: not measured, it needs root\n');
    return;
  }
  const api = await LiveCluster.start();
  const dir = mkdtempSync(join(tmpdir(), 'sluice-kernel-bench-'));
  await using cluster = await openCluster(spec);
  const bundle = join(dir, 'rendered');
  writeFileSync(join(dir, 'sluice.yaml'), config);
  fill(api);
  const args = [
    'watch',
    '-o',
    bundle,
    '-c',
    join(dir, 'sluice.yaml'),
    '--kubeconfig',
    api.server.kubeconfig({ token }),
  ];
  const watching = execa(sluice, args, { reject: false, all: true });
  const probe = { name: 'web', http: `http://${vip}:80/` };
  const members = spec.nodes.map(
    ({ name }) => new DemoNode(cluster.host(name), dir, bundle, probe, { scanIntervalSeconds: scanSeconds }),
  );
  try {
    const next = turns();
    const started = performance.now();
    for (const member of members) member.start();
    await Promise.all(spec.nodes.map(({ name }) => switched(cluster, name, 'web-1', firstLoadMs)));
    const first = performance.now() - started;
    await settled(members);
    tell(
      await measure(api, cluster, changes, next, () => settled(members)),
      first,
      'each change after the previous one is confirmed',
    );
    tell(
      await measure(api, cluster, hastyChanges, next, () => onProbation(api, members)),
      first,
      'while a release with a new Service is on probation',
    );
  } finally {
    for (const member of members) await member.stop();
    watching.kill('SIGTERM');
    await watching;
    await api.server.close();
    rmSync(dir, { recursive: true, force: true });
  }
}

/** The cluster of the benchmarks, two real nodes, and a Service with one pod that answers. */
function fill(api: LiveCluster): void {
  const { items } = clusterList({ services, endpointsPerService: 5, nodes: 98 });
  const of = (kind: string): ApiObject[] => items.filter((item) => item['kind'] === kind);
  const nodes = spec.nodes.map(({ name, addresses: [address], podCIDRs }) => ({
    metadata: { name, labels: {} },
    spec: { podCIDR: podCIDRs[0], podCIDRs },
    status: { addresses: [{ type: 'InternalIP', address }], capacity: { cpu: '2' } },
  }));
  const ports = [{ name: 'http', port: 80, protocol: 'TCP' }];
  const service = { metadata: { name: 'web', namespace: 'shop' }, spec: { clusterIP: vip, clusterIPs: [vip], ports } };
  api.load('nodes', [...of('Node'), ...nodes]);
  api.load('services', [...of('Service'), service]);
  api.load('endpointslices', [...of('EndpointSlice'), endpointAt('web-1')]);
}

function endpointAt(name: string): ApiObject {
  const pod = spec.pods.find((one) => one.name === name);
  return {
    metadata: { name: 'web-1', namespace: 'shop', labels: { 'kubernetes.io/service-name': 'web' } },
    addressType: 'IPv4',
    endpoints: [{ addresses: pod?.addresses, conditions: { ready: true }, nodeName: pod?.node }],
    ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
  };
}

/** The pods alternately; the first load has the first of them. */
function turns(): () => string {
  let turn = 0;
  return () => (turn++ % 2 === 0 ? 'web-2' : 'web-1');
}

/** Milliseconds on each node, sorted. */
async function measure(
  api: LiveCluster,
  cluster: Cluster,
  times: number,
  next: () => string,
  before: () => Promise<unknown>,
): Promise<number[]> {
  const latencies: number[] = [];
  for (let change = 0; change < times; change++) {
    await before();
    const pod = next();
    const begun = performance.now();
    api.put('endpointslices', endpointAt(pod));
    const at = await Promise.all(spec.nodes.map(({ name }) => switched(cluster, name, pod, changeMs)));
    latencies.push(...at.map((moment) => moment - begun));
  }
  return latencies.toSorted((a, b) => a - b);
}

/** @returns the moment at which the first new connection from a node reached this pod */
async function switched(cluster: Cluster, name: string, pod: string, timeoutMs: number): Promise<number> {
  const end = performance.now() + timeoutMs;
  while (performance.now() < end) {
    const reply = await cluster.host(name).connect({ protocol: 'tcp', to: vip, port: 80, timeoutMs: 1_000 });
    if (reply.kind === 'answer' && reply.answer === pod) return performance.now();
    await sleep(5);
  }
  throw new Error(`${name} did not reach ${pod} within ${timeoutMs / 1000} s`);
}

let releases = 0;

/** Puts a release on probation on every node: a new Service is one. */
async function onProbation(api: LiveCluster, members: readonly DemoNode[]): Promise<void> {
  const open = await Promise.all(members.map((member) => member.status()));
  if (open.every((status) => status.open !== null)) return sleep(250);
  await settled(members);
  const clusterIP = `10.111.1.${++releases}`;
  const ports = [{ name: 'http', port: 80, protocol: 'TCP' }];
  api.put('services', {
    metadata: { name: `more-${releases}`, namespace: 'shop' },
    spec: { clusterIP, clusterIPs: [clusterIP], ports },
  });
  for (const member of members)
    await waitFor(`${member.host.name} has a release on probation`, changeMs, async () =>
      (await member.status()).open === null ? undefined : true,
    );
}

/** Waits until no node has a change in progress. */
async function settled(members: readonly DemoNode[]): Promise<void> {
  for (const member of members)
    await waitFor(`${member.host.name} has confirmed`, changeMs, async () =>
      (await member.status()).open === null ? true : undefined,
    );
}

function tell(latencies: readonly number[], firstMs: number, how: string): void {
  report(
    `sluice watch and two sluiced, ${services} Services with ${services * 5} endpoints: from the API's event to the switched kernel`,
    `p50 ${percentile(latencies, 0.5)}, p99 ${percentile(latencies, 0.99)}, the slowest ${percentile(latencies, 1)}`,
    'p99 under 1 s',
    `${latencies.length / 2} changes seen on 2 nodes by new connections, ${how}; the first load took ${(firstMs / 1000).toFixed(1)} s`,
  );
}
