import { emptyNft } from '@sluice/netfilter';
import { expect, test } from 'vitest';
import type { Facts } from '../facts.ts';
import { diagnoseNode } from './diagnose-node.ts';
import { about, causeOf, conntrack, healthy, sysctls } from './healthy.fixture.ts';

/** What ordinary nodes have beside Sluice, and what of it is a cause. */

const silent = conntrack({ endpoints: new Map([['10.244.2.6:8080 tcp', { answered: 0, silent: 9, masqueraded: 0 }]]) });

const modeNftables = (edition: number): Partial<Facts> => ({
  desired: {
    ...(healthy.desired as NonNullable<Facts['desired']>),
    state: { families: {}, sysctls: new Map(), nft: { ...emptyNft, settings: [`table ${edition} address`] } },
  },
});
const jumps = (store: 'nft' | 'legacy'): Partial<Facts> => ({
  tables: [
    {
      store,
      family: 'ipv4',
      table: 'nat',
      chains: new Map([
        ['PREROUTING', { policy: 'ACCEPT', rules: ['-A PREROUTING -j KUBE-SERVICES'] }],
        [
          'KUBE-SERVICES',
          { policy: '-', rules: ['-A KUBE-SERVICES -d 10.96.0.10/32 -j DNAT --to-destination 10.1.1.1:1'] },
        ],
      ]),
    },
  ],
});

test.each([
  ['nft', 4, ''],
  ['legacy', 4, ''],
  ['nft', 3, 'certain KUBE_PROXY_LEFTOVERS'],
  ['legacy', 3, 'certain RULES_IN_BOTH_STORES'],
] as const)(
  'jumps of a kube-proxy in store %s beside edition %i of the table of mode nftables',
  (store, edition, expected) => {
    expect(causeOf({ ...modeNftables(edition), ...jumps(store) })).toBe(expected);
    const { notes } = diagnoseNode(about, { ...healthy, ...modeNftables(edition), ...jumps(store) });
    expect(notes.some(({ code }) => code === 'KUBE_PROXY_LEFTOVERS')).toBe(expected === '');
  },
);

test.each([
  ['a cluster IP', '10.96.0.10:80', 'certain STALE_CONNECTIONS'],
  ['a node port', '192.0.2.11:30080', 'certain STALE_CONNECTIONS'],
  ['another port', '10.96.0.10:81', ''],
  ['a node port of another machine', '192.0.2.12:30080', ''],
])('a TCP connection to %s that was never translated', (_title, asked, expected) => {
  expect(causeOf(conntrack({ untranslated: new Set([asked]) }))).toBe(expected);
});

const onBridge = (change: Partial<Facts>, ports = 2): Partial<Facts> => ({
  interfaces: [
    ...(healthy.interfaces ?? []),
    { name: 'cni0', isUp: true, mtu: 1500, kind: 'bridge', addresses: ['10.244.2.1'] },
    ...['veth1', 'veth2'].slice(0, ports).map((name) => ({
      name,
      isUp: true,
      mtu: 1500,
      kind: 'veth',
      addresses: [],
      bridge: { name: 'cni0', isHairpin: true },
    })),
  ],
  routes: [{ to: '10.244.2.6', dev: 'cni0', isLocal: false }],
  ...silent,
  ...change,
});

test.each<[string, Partial<Facts>, string]>([
  ['is off', onBridge(sysctls('net/bridge/bridge-nf-call-iptables', '0')), 'likely BRIDGE_NOT_FILTERED'],
  ['is absent', onBridge({}), 'likely BRIDGE_NOT_FILTERED'],
  ['is on', onBridge(sysctls('net/bridge/bridge-nf-call-iptables', '1')), 'likely ENDPOINT_SILENT'],
  ['is off, on a bridge with one pod', onBridge({}, 1), 'likely ENDPOINT_SILENT'],
])('endpoints on a bridge seem silent where bridge-nf-call-iptables %s', (_title, change, expected) => {
  expect(causeOf(change)).toBe(expected);
});
