import { emptyNft } from '@sluice/netfilter';
import type { Facts, Frontend } from '../facts.ts';
import { diagnoseNode } from './diagnose-node.ts';

/** For tests only: a frontend of `shop/web`. */
export const frontend = (more: Partial<Frontend> = {}): Frontend => ({
  family: 'ipv4',
  protocol: 'tcp',
  service: 'shop/web:http',
  address: '10.96.0.10',
  port: 80,
  endpoints: [{ text: '10.244.2.6:8080', weight: 1 }],
  affinitySeconds: [],
  ...more,
});

/** For tests only: a node on which everything works. */
export const healthy: Facts = {
  node: 'node-a',
  sluiced: {
    generation: 3,
    version: 'abc',
    halted: undefined,
    open: undefined,
    quarantinedServices: [],
    leftOut: new Map(),
    liveNote: '',
    releaseWarnings: [],
    bundle: { kind: 'same', directory: '/etc/sluice/rendered' },
    isDaemonRunning: true,
    alarms: {},
  },
  desired: {
    mode: 'nftables',
    store: 'nft',
    state: {
      families: {},
      sysctls: new Map(),
      nft: { ...emptyNft, settings: ['table 2 address'] },
    },
    frontends: [frontend({ kind: 'cluster' }), frontend({ address: undefined, port: 30_080 })],
    nodeAddresses: ['192.0.2.11'],
  },
  differences: [],
  tables: [],
  nftTables: [],
  interfaces: [{ name: 'eth0', isUp: true, mtu: 1500, kind: '', addresses: ['192.0.2.11'] }],
  routes: [{ to: '10.244.2.6', dev: 'eth0', via: '192.0.2.1', isLocal: false }],
  failedNeighbours: [],
  sysctls: new Map([
    ['net/ipv4/ip_forward', '1'],
    ['net/ipv4/ip_local_port_range', '32768 60999'],
    ['net/netfilter/nf_conntrack_udp_timeout', '30'],
  ]),
  counters: {
    received: 1_000_000,
    reversePathFilter: 0,
    fragmentsFailed: 0,
    packetsTooBig: 0,
    insertFailed: 0,
    dropped: 0,
    earlyDropped: 0,
  },
  conntrack: { count: 100, max: 1000, endpoints: new Map(), stale: [], untranslated: new Set() },
  kubeProxies: [],
  listeners: [],
  disk: { path: '/var/lib/sluice', freeBytes: 2 ** 30, freeInodes: 1000, inodes: 2000, isReadOnly: false },
  clock: { nowMs: 2_000_000, stateMs: 1_000_000 },
  missingTools: [],
  unread: [],
};

/** What tests ask about. */
export const about = { kind: 'service', service: 'shop/web' } as const;
/** The cause that is found on the healthy node with a change; empty: none. */
export const causeOf = (change: Partial<Facts>): string => {
  const { cause } = diagnoseNode(about, { ...healthy, ...change });
  return cause ? `${cause.certainty} ${cause.code}` : '';
};

export const sysctls = (key: string, value: string): Partial<Facts> => ({
  sysctls: new Map([...(healthy.sysctls ?? []), [key, value]]),
});

export const conntrack = (change: Partial<NonNullable<Facts['conntrack']>>): Partial<Facts> => ({
  conntrack: { count: 100, max: 1000, endpoints: new Map(), stale: [], untranslated: new Set(), ...change },
});
