// @module-tag all
import { mkdirSync, writeFileSync } from 'node:fs';
import { programPath } from '@sluice/testing';
import { execa } from 'execa';
import { beforeEach, expect, test } from 'vitest';
import { needKernel } from './privileges.ts';
import { RegistryClients, type RegistryCount, startRegistry, sum } from './registry-clients.ts';
import { SluicedNode, until } from './sluiced-node.ts';

/**
 * An air-gapped node pulls its images from a registry at a node port of localhost, in mode nftables: what docs/limits-modes.md promises for
 * 127.0.0.1, which the table serves, and for ::1, which `sluiced` serves.
 */

/** At each address; beside them four pulls at a time. */
const staying = 500;

const pods = ['10.244.1.1', '10.244.1.2', 'fd00:10:244:1::1', 'fd00:10:244:1::2'] as const;

const service = (name: string, addresses: readonly string[], type: object): readonly object[] => [
  {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, namespace: 'shop' },
    spec: {
      clusterIP: addresses[0],
      clusterIPs: addresses,
      ipFamilies: ['IPv4', 'IPv6'],
      ipFamilyPolicy: 'RequireDualStack',
      ...type,
    },
  },
  ...(['IPv4', 'IPv6'] as const).map((addressType) => ({
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      name: `${name}-${addressType.toLowerCase()}`,
      namespace: 'shop',
      labels: { 'kubernetes.io/service-name': name },
    },
    addressType,
    ports: [{ name: '', port: 8080, protocol: 'TCP' }],
    endpoints: pods
      .filter((address) => address.includes(':') === (addressType === 'IPv6'))
      .map((address) => ({ addresses: [address], nodeName: 'node-a', conditions: { ready: true } })),
  })),
];
const registry = service('registry', ['10.96.0.10', 'fd00:96::10'], {
  type: 'NodePort',
  ports: [{ port: 5000, targetPort: 8080, nodePort: 31_999, protocol: 'TCP' }],
});
const other = service('other', ['10.96.0.11', 'fd00:96::11'], {
  type: 'ClusterIP',
  ports: [{ port: 80, targetPort: 8080, protocol: 'TCP' }],
});

const config = `apiVersion: sluice.dev/v1alpha1
kind: SluiceConfig
clusterName: airgap
complete: true
nodes: [{name: node-a, addresses: [192.0.2.11, 'fd00::11'], podCIDRs: [10.244.1.0/24, 'fd00:10:244:1::/64']}]
profiles:
  - name: default
    mode: nftables
    kubeProxyVersion: "1.38"
    nodePortAddresses: [primary, localhost]
    clusterCIDR: 10.244.0.0/16,fd00:10:244::/48
    conntrack: {maxPerCore: 0}
`;

/** Renders Services into the bundle of the node. */
async function publish(node: SluicedNode, objects: readonly object[]): Promise<void> {
  mkdirSync(`${node.directory}/in`, { recursive: true });
  writeFileSync(`${node.directory}/sluice.yaml`, config);
  writeFileSync(`${node.directory}/in/all.yaml`, objects.map((one) => JSON.stringify(one)).join('\n---\n'));
  const args = ['render', '-f', 'in', '-c', 'sluice.yaml', '-o', 'rendered'];
  await execa(process.execPath, [programPath('sluice'), ...args], { cwd: node.directory });
}

/** A node whose pods are in a namespace of their own, behind a veth pair. */
async function makeNode(onEnd: (undo: () => Promise<void>) => void): Promise<SluicedNode> {
  const node = await SluicedNode.make();
  onEnd(() => node.remove());
  const name = `${node.name}-pods`;
  await execa('ip', ['netns', 'add', name]);
  onEnd(async () => void (await execa('ip', ['netns', 'delete', name], { reject: false })));
  await execa('ip', ['-n', node.name, 'link', 'add', 'pod0', 'type', 'veth', 'peer', 'name', 'eth0', 'netns', name]);
  const address = (of: string, on: string, ...all: readonly string[]): string[] =>
    all.map((one) => `ip -n ${of} addr add ${one} dev ${on} ${one.includes(':') ? 'nodad' : ''}`);
  const commands = [
    ...address(node.name, 'pod0', '10.244.1.254/24', 'fd00:10:244:1::fe/64'),
    ...address(name, 'eth0', ...pods.map((one) => `${one}/${one.includes(':') ? 64 : 24}`)),
    `ip -n ${node.name} link set pod0 up`,
    `ip -n ${name} link set eth0 up`,
  ];
  await execa('sh', ['-ec', commands.join('\n')]);
  const end = startRegistry(node.directory, pods, name);
  onEnd(async () => void end());
  return node;
}

const failures = ({ lost, ended }: RegistryCount): number => sum(lost) + sum(ended);

beforeEach(needKernel);

test('pulls from a registry on localhost, over a release, a rollback and a killed daemon', {
  timeout: 600_000,
}, async ({ onTestFinished }) => {
  const node = await makeNode(onTestFinished);
  node.writeConfig('auto');
  await publish(node, registry);
  const first = node.start();
  const has = async (address: string): Promise<boolean> => (await node.frontends()).includes(address);
  await until('the registry is in the kernel', () => has('10.96.0.10'), 120_000);
  const clients = RegistryClients.start(node, staying);
  await clients.open('127.0.0.1');
  await clients.open('::1');
  const start = clients.counts;
  /** What failed since the start, pulls and connections that stay: before the daemon listened, ::1 refused. */
  const failed = (address: '127.0.0.1' | '::1', since = start, now = clients.counts): number =>
    failures(now[address]) - failures(since[address]);
  const bothGoOn = async (): Promise<void> => {
    await Promise.all([clients.goOn('127.0.0.1'), clients.goOn('::1')]);
    expect([failed('127.0.0.1'), failed('::1')]).toEqual([0, 0]);
  };
  await bothGoOn();

  await publish(node, [...registry, ...other]);
  await until('the release is in the kernel', () => has('10.96.0.11'), 120_000);
  await bothGoOn();

  expect(await node.sluiced('rollback', '1', '--yes')).toMatchObject({ exitCode: 0 });
  expect(await has('10.96.0.11')).toBe(false);
  await bothGoOn();

  await node.kill(first);
  await clients.fail('::1');
  await clients.goOn('127.0.0.1');
  expect(failed('127.0.0.1')).toBe(0);
  const dead = clients.counts;
  expect([dead['::1'].staying, sum(dead['::1'].ended)]).toEqual([0, staying]);
  // The pulls of that moment, four at a time, are cut, and all others are refused.
  const refused = (dead['::1'].lost['ECONNREFUSED'] ?? 0) - (start['::1'].lost['ECONNREFUSED'] ?? 0);
  expect(refused).toBeGreaterThanOrEqual(failed('::1', start, dead) - staying - 4);

  node.start();
  await clients.open('::1');
  const back = clients.counts;
  await Promise.all([clients.goOn('127.0.0.1'), clients.goOn('::1')]);
  expect([failed('127.0.0.1'), failed('::1', back)]).toEqual([0, 0]);
  const { counts } = clients;
  console.log(`Registry on localhost, ${staying} connections that stay at each address: ${JSON.stringify(counts)}`);
});
