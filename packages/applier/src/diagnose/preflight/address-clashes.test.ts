import { emptyProgram, emptyTable } from '@sluice/netfilter';
import { expect, test } from 'vitest';
import type { NodeState } from '../../ports/node-state.ts';
import { addressClashes } from './address-clashes.ts';

/** A ClusterIP 10.96.0.1, an external address 203.0.113.1 and a node port, in each plane. */
const states = {
  iptables: {
    families: {
      ipv4: {
        ...emptyProgram,
        nat: {
          ...emptyTable,
          chains: new Map([
            [
              'KUBE-SERVICES',
              [
                '-A KUBE-SERVICES -m comment --comment "shop/web:http cluster IP" -m tcp -p tcp -d 10.96.0.1/32 --dport 80 -j KUBE-SVC-AAAAAAAAAAAAAAAA',
                '-A KUBE-SERVICES -m comment --comment "shop/web:http external IP" -m tcp -p tcp -d 203.0.113.1/32 --dport 80 -j KUBE-EXT-AAAAAAAAAAAAAAAA',
              ],
            ],
            ['KUBE-EXT-AAAAAAAAAAAAAAAA', ['-A KUBE-EXT-AAAAAAAAAAAAAAAA -j KUBE-SVC-AAAAAAAAAAAAAAAA']],
            ['KUBE-SVC-AAAAAAAAAAAAAAAA', ['-A KUBE-SVC-AAAAAAAAAAAAAAAA -j KUBE-SEP-AAAAAAAAAAAAAAAA']],
            [
              'KUBE-SEP-AAAAAAAAAAAAAAAA',
              ['-A KUBE-SEP-AAAAAAAAAAAAAAAA -m tcp -p tcp -j DNAT --to-destination 10.244.1.5:8080'],
            ],
          ]),
        },
      },
    },
    sysctls: new Map(),
  },
  ipvs: {
    families: {},
    ipvs: {
      virtualServers: new Map(
        ['10.96.0.1', '203.0.113.1'].map((address) => [
          `${address} tcp 80`,
          { family: 'ipv4', address, protocol: 'tcp', port: 80, scheduler: 'rr', flags: [], real: new Map() },
        ]),
      ),
      sets: new Map([
        [
          'KUBE-CLUSTER-IP',
          { name: 'KUBE-CLUSTER-IP', family: 'ipv4', type: 'hash:ip,port', entries: new Set(['10.96.0.1,tcp:80']) },
        ],
      ]),
      addresses: { ipv4: ['10.96.0.1', '203.0.113.1'], ipv6: [] },
    },
    sysctls: new Map(),
  },
  nftables: {
    families: {},
    nft: {
      settings: [],
      frontends: new Map([
        ['10.96.0.1 . tcp . 80', ['cluster-ip', 'endpoint 10.244.1.5 8080']],
        ['203.0.113.1 . tcp . 80', ['outside cluster', 'endpoint 10.244.1.5 8080']],
        ['0.0.0.0 . tcp . 30080', ['outside cluster', 'endpoint 10.244.1.5 8080']],
      ]),
    },
    sysctls: new Map(),
  },
} as const;

test.each(Object.entries(states))(
  'mode %s: finds Service addresses of this node, and tells ClusterIPs',
  (_mode, state) => {
    const on = (...ipv4: readonly string[]) =>
      addressClashes(state as unknown as NodeState, { addresses: { ipv4, ipv6: [] } });
    expect(on('192.0.2.11', '10.96.0.1')).toEqual([{ address: '10.96.0.1', cluster: true }]);
    expect(on('203.0.113.1')).toEqual([{ address: '203.0.113.1', cluster: false }]);
    expect(on('192.0.2.11', '0.0.0.0')).toEqual([]);
  },
);
