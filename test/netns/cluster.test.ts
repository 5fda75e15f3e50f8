// @module-tag test
import { beforeEach, expect, test } from 'vitest';
import { type ClusterSpec, openCluster } from './cluster.ts';
import { needKernel } from './privileges.ts';
import { until } from './until.ts';

beforeEach(needKernel);

const spec: ClusterSpec = {
  nodes: [
    { name: 'node-1', addresses: ['192.0.2.11', '2001:db8:2::11'], podCIDRs: ['10.244.1.0/24', 'fd00:10:244:1::/64'] },
    { name: 'node-2', addresses: ['192.0.2.12', '2001:db8:2::12'], podCIDRs: ['10.244.2.0/24', 'fd00:10:244:2::/64'] },
  ],
  pods: [
    { name: 'web-1', node: 'node-1', addresses: ['10.244.1.5', 'fd00:10:244:1::5'], ports: ['8080/tcp', '8080/udp'] },
    { name: 'web-2', node: 'node-2', addresses: ['10.244.2.5', 'fd00:10:244:2::5'], ports: ['8080/tcp', '8080/udp'] },
    { name: 'client', node: 'node-1', addresses: ['10.244.1.9', 'fd00:10:244:1::9'], ports: [] },
  ],
  outside: ['198.51.100.10', '2001:db8:ffff::10'],
};

/** Two rules written by hand: a VIP of web-1 with masquerading, as short as possible. */
const rules = (family: 'v4' | 'v6'): string => {
  const [vip, pod] = family === 'v4' ? ['10.96.0.10', '10.244.1.5'] : ['fd00:10:96::10', '[fd00:10:244:1::5]'];
  const dnat = `-p tcp -d ${vip} --dport 80 -j DNAT --to-destination ${pod}:8080`;
  return `*nat\n-A PREROUTING ${dnat}\n-A OUTPUT ${dnat}\n-A POSTROUTING -m conntrack --ctstate DNAT -j MASQUERADE\nCOMMIT
*filter\n-A FORWARD -p tcp -d ${vip} --dport 81 -j REJECT\n-A FORWARD -p tcp -d ${vip} --dport 82 -j DROP\nCOMMIT\n`;
};

test('pods, nodes and the outside reach each other through the rules of the nodes', async () => {
  await using cluster = await openCluster(spec);
  for (const tool of ['iptables-nft-restore', 'ip6tables-nft-restore']) {
    await cluster.host('node-1').run([tool], { input: rules(tool.startsWith('ip6') ? 'v6' : 'v4') });
  }
  for (const vip of ['10.96.0.10', 'fd00:10:96::10']) await cluster.enterAt(vip, 'node-1');
  const table = [
    ['client', 'tcp', '10.244.2.5', 8080, 'web-2 sees 10.244.1.9'],
    ['client', 'udp', '10.244.2.5', 8080, 'web-2 sees 10.244.1.9'],
    ['node-2', 'udp', 'fd00:10:244:1::5', 8080, 'web-1 sees 2001:db8:2::12'],
    ['outside', 'tcp', 'fd00:10:244:2::5', 8080, 'web-2 sees 2001:db8:ffff::10'],
    ['client', 'tcp', '10.96.0.10', 80, 'web-1 sees 192.0.2.11'],
    ['web-1', 'tcp', '10.96.0.10', 80, 'web-1 sees 192.0.2.11'],
    ['outside', 'tcp', '10.96.0.10', 80, 'web-1 sees 192.0.2.11'],
    ['outside', 'tcp', 'fd00:10:96::10', 80, 'web-1 sees 2001:db8:2::11'],
    ['node-1', 'tcp', '10.96.0.10', 80, 'web-1 sees 192.0.2.11'],
    ['client', 'tcp', '10.96.0.10', 81, 'refused'],
    ['client', 'tcp', 'fd00:10:96::10', 81, 'refused'],
    ['client', 'udp', '10.244.2.5', 9, 'refused'],
    ['client', 'tcp', '10.96.0.10', 82, 'timeout'],
    ['client', 'tcp', '203.0.113.99', 80, 'unreachable'],
    ['client', 'tcp', '2001:db8:99::1', 80, 'timeout'],
  ] as const;
  const seen = table.map(async ([from, protocol, to, port]) => {
    const reply = await cluster.host(from).connect({ protocol, to, port, timeoutMs: 2_000 });
    const text = reply.kind === 'answer' ? `${reply.answer} sees ${reply.seenAs}` : reply.kind;
    return [from, protocol, to, port, text];
  });
  expect(await Promise.all(seen)).toEqual(table);
});

test('a machine ends all programs that were started in it', async () => {
  const cluster = await openCluster({ ...spec, nodes: spec.nodes.slice(0, 1), pods: [] });
  const daemon = cluster.host('node-1').start(['sleep', '600']);
  const node = cluster.host('node-1');
  await until('it is started', async () => (await node.run(['ls', '/run'])) !== '');
  expect(await node.run(['sh', '-c', 'ls /run; ip -br link show lo'])).toMatch(/^daemon-\d+\.pid\nlo/);
  await cluster[Symbol.asyncDispose]();
  expect((await daemon.ended).exitCode).not.toBe(0);
});

test('refuses two machines of one name before anything starts', async () => {
  const twice = { ...spec, pods: [{ name: 'outside', node: 'node-1', addresses: [], ports: [] }] };
  await expect(openCluster(twice)).rejects.toThrow('duplicate names');
});
