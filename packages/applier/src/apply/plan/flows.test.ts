import { emptyNft, type IpvsState, type TableProgram } from '@sluice/netfilter';
import { expect, test } from 'vitest';
import { server, state as virtual } from '../../ports/ipvs/states.fixture.ts';
import { flowChange, pendingFlows, staleFlows, udpFamilies } from './flows.ts';
import type { TrackedFlow } from '../../ports/kernel.ts';
import type { NodeState } from '../../ports/node-state.ts';

const empty: TableProgram = { chains: new Map(), jumps: [] };

/** A node in mode iptables: frontends, such as `udp 10.96.0.10 53`, and their endpoints. */
function node(frontends: Readonly<Record<string, readonly string[]>>, ipvs?: IpvsState): NodeState {
  const chains = new Map<string, readonly string[]>();
  const services: string[] = [];
  const nodePorts: string[] = [];
  const rejects: string[] = [];
  for (const [index, [frontend, endpoints]] of Object.entries(frontends).entries()) {
    const [protocol, address, port] = frontend.split(' ');
    const tail = `-m comment --comment "a/b" -m ${protocol} --dport ${port} -j KUBE-EXT-${index}`;
    if (endpoints.length === 0) {
      rejects.push(
        `-A KUBE-SERVICES ${address === '*' ? '' : `-d ${address}/32 `}-p ${protocol} ${tail.replace(/-j .*/, '-j REJECT')}`,
      );
      continue;
    }
    if (address === '*') nodePorts.push(`-A KUBE-NODEPORTS -p ${protocol} ${tail}`);
    else services.push(`-A KUBE-SERVICES -d ${address}/${address?.includes(':') ? 128 : 32} -p ${protocol} ${tail}`);
    chains.set(`KUBE-EXT-${index}`, [`-A KUBE-EXT-${index} -j KUBE-SVC-${index}`]);
    chains.set(
      `KUBE-SVC-${index}`,
      endpoints.map((_, at) => `-A KUBE-SVC-${index} -j KUBE-SEP-${index}-${at}`),
    );
    for (const [at, endpoint] of endpoints.entries()) {
      const name = `KUBE-SEP-${index}-${at}`;
      chains.set(name, [`-A ${name} -p ${protocol} -m ${protocol} -j DNAT --to-destination ${endpoint}`]);
    }
  }
  const nat = { chains: new Map([...chains, ['KUBE-SERVICES', services], ['KUBE-NODEPORTS', nodePorts]]), jumps: [] };
  const filter = { ...empty, chains: new Map([['KUBE-SERVICES', rejects]]) };
  const families = { ipv4: { filter, nat } };
  return { families, sysctls: new Map(), ...(ipvs ? { ipvs: { ...ipvs, excludeCIDRs: [] } } : {}) };
}

/** Frontends of mode nftables that count whose lines are read. */
class Packed extends Map<string, readonly string[]> {
  readonly read: string[] = [];

  override get(key: string): readonly string[] | undefined {
    this.read.push(key);
    return super.get(key);
  }

  override [Symbol.iterator](): never {
    throw new Error('reads the lines of all frontends');
  }
}

test('reads the lines of frontends of UDP alone to find stale flows in mode nftables', () => {
  const frontends = new Packed();
  frontends.set('10.96.0.10 . udp . 53', ['endpoint 10.244.1.5 . 53']);
  frontends.set('10.96.0.12 . udp . 53', ['none refuse']);
  frontends.set('10.96.0.10 . tcp . 53', ['endpoint 10.244.1.5 . 53']);
  const state: NodeState = { families: {}, sysctls: new Map(), nft: { ...emptyNft, frontends } };
  const paths = ['10.96.0.10', '10.96.0.12'].flatMap((address) =>
    ['10.244.1.5:53', '10.244.2.6:53'].map((endpoint) => ({ family: 'ipv4', address, port: 53, endpoint }) as const),
  );
  expect(staleFlows(state, paths).map(({ address, endpoint }) => `${address} ${endpoint}`)).toEqual([
    '10.96.0.10 10.244.2.6:53',
    '10.96.0.12 10.244.1.5:53',
    '10.96.0.12 10.244.2.6:53',
  ]);
  expect(udpFamilies(state)).toEqual(['ipv4']);
  expect(frontends.read.filter((key) => key.includes('tcp'))).toEqual([]);
});

const emptyIpvs: NodeState = { families: {}, sysctls: new Map() };
const [one, two] = ['10.244.1.5:53', '10.244.2.6:53'];
const dns = 'udp 10.96.0.10 53';
const web = 'tcp 10.96.0.10 80';
const inIpvs = (real: Readonly<Record<string, number>>): NodeState =>
  node({}, virtual([server('10.96.0.10:53/UDP', real)]));
const flow = (endpoint?: string, address: string | undefined = '10.96.0.10', port = 53): TrackedFlow => ({
  family: 'ipv4',
  protocol: 'udp',
  address,
  port,
  endpoint,
});
const nodePort = (endpoint?: string): TrackedFlow => ({ ...flow(endpoint, '', 30053), address: undefined });

test.each([
  ['one endpoint is removed', node({ [dns]: [one, two] }), node({ [dns]: [two] }), [flow(one)]],
  ['the last endpoints are removed', node({ [dns]: [one, two] }), node({ [dns]: [] }), [flow(one), flow(two)]],
  ['the Service is removed', node({ [dns]: [one] }), node({}), [flow(one)]],
  ['Sluice goes', node({ [dns]: [one] }), emptyIpvs, [flow(one)]],
  ['an endpoint is added', node({ [dns]: [one] }), node({ [dns]: [one, two] }), []],
  ['the first endpoint is added: stale unserved flows', node({}), node({ [dns]: [one] }), [flow()]],
  [
    'an endpoint of a node port is removed',
    node({ 'udp * 30053': [one, two] }),
    node({ 'udp * 30053': [two] }),
    [nodePort(one)],
  ],
  ['a Service without endpoints is new: its packets left the node', node({}), node({ [dns]: [] }), [flow()]],
  ['a node port without endpoints is new', node({}), node({ 'udp * 30053': [] }), [nodePort()]],
  ['a Service without endpoints goes', node({ [dns]: [] }), node({}), []],
  ['nothing happens to a Service without endpoints', node({ [dns]: [] }), node({ [dns]: [], [web]: [one] }), []],
  ['a node port is new', node({}), node({ 'udp * 30053': [two] }), [nodePort()]],
  ['TCP is left alone', node({ 'tcp 10.96.0.10 80': [one] }), node({}), []],
  ['mode ipvs: one endpoint is removed', inIpvs({ [one]: 1, [two]: 1 }), inIpvs({ [two]: 1 }), [flow(one)]],
  ['mode ipvs: the last endpoint is removed', inIpvs({ [one]: 1 }), inIpvs({}), [flow(one)]],
  ['mode ipvs: the first endpoint is added', inIpvs({}), inIpvs({ [one]: 1 }), [flow()]],
  ['mode ipvs: only a weight changes', inIpvs({ [one]: 1 }), inIpvs({ [one]: 9 }), []],
  ['the mode changes and the endpoints stay', node({ [dns]: [one] }), inIpvs({ [one]: 1 }), []],
  ['the mode changes and an endpoint is removed', node({ [dns]: [one, two] }), inIpvs({ [one]: 1 }), [flow(two)]],
  ['the node leaves mode ipvs and the endpoints stay', inIpvs({ [one]: 1 }), node({ [dns]: [one] }), [flow(one)]],
  [
    'the mode changes, and a node port gets one frontend per address',
    node({ 'udp * 30053': [one] }),
    node({}, virtual([server('192.0.2.11:30053/UDP', { [one]: 1 })])),
    [flow(undefined, '192.0.2.11', 30053)],
  ],
])('%s', (_title, now, desired, old) => {
  expect(flowChange(now, desired).old).toEqual(old);
  expect(flowChange(desired, now).fresh, 'the rollback forgets the same').toEqual(old);
});

const pending = (endpoint?: string): TrackedFlow => ({ ...flow(endpoint, '10.96.0.10', 80), protocol: 'tcp' });

test.each([
  ['an endpoint only the new program has', node({ [web]: [one] }), node({ [web]: [one, two] }), [pending(two)]],
  ['a Service that it does not serve', node({ [web]: [one] }), node({}), [pending()]],
  ['a Service that only it serves', node({}), node({ [web]: [one] }), [pending(one)]],
  ['an endpoint that it no longer has', node({ [web]: [one, two] }), node({ [web]: [one] }), []],
  ['UDP flows, which `flowChange` covers', node({ [dns]: [one] }), node({ [dns]: [two] }), []],
  ['nothing changes', node({ [web]: [one] }), node({ [web]: [one] }), []],
])('pending TCP flows of a rollback: %s', (_title, old, fresh, flows) => {
  expect(pendingFlows(old, fresh)).toEqual(flows);
});

test('finds the connections that a frontend sends to an endpoint that it does not have', () => {
  const serving = node({ [dns]: [one], 'udp * 30053': [one], 'tcp 10.96.0.11 80': [two] });
  const path = (address: string, port: number, endpoint: string) =>
    ({ family: 'ipv4', address, port, endpoint }) as const;
  const found = staleFlows(serving, [
    path('10.96.0.10', 53, one),
    path('10.96.0.10', 53, two),
    path('192.0.2.11', 30_053, one),
    path('192.0.2.11', 30_053, two),
    // Another protocol, and a translation of another program.
    path('10.96.0.11', 80, one),
    path('192.0.2.11', 5353, two),
  ]);
  expect(found).toEqual([
    { family: 'ipv4', protocol: 'udp', address: '10.96.0.10', port: 53, endpoint: two },
    { family: 'ipv4', protocol: 'udp', address: undefined, port: 30_053, endpoint: two },
  ]);
});

test('finds them in mode ipvs', () => {
  const serving = inIpvs({ [one]: 1 });
  const path = { family: 'ipv4', address: '10.96.0.10', port: 53 } as const;
  expect(staleFlows(serving, [{ ...path, endpoint: one }])).toEqual([]);
  expect(staleFlows(serving, [{ ...path, endpoint: two }])).toMatchObject([{ endpoint: two }]);
});

test('finds them at a frontend that has no endpoint any more', () => {
  const rejecting = node({ [dns]: [], 'udp * 30053': [], 'tcp 10.96.0.12 80': [] });
  const path = (address: string, port: number) => ({ family: 'ipv4', address, port, endpoint: one }) as const;
  const found = staleFlows(rejecting, [path('10.96.0.10', 53), path('192.0.2.11', 30_053), path('10.96.0.12', 80)]);
  expect(found.map(({ address, port }) => [address, port])).toEqual([
    ['10.96.0.10', 53],
    [undefined, 30_053],
  ]);
});

test('knows the families in which a state has frontends of UDP', () => {
  const states = [node({ [dns]: [one] }), node({ [dns]: [] }), node({ 'tcp 10.96.0.11 80': [two] })];
  expect(states.map(udpFamilies)).toEqual([['ipv4'], ['ipv4'], []]);
});
