import type { Mode, Packet } from '@sluice/netfilter';
import { expect, test } from 'vitest';
import { bundleOf } from '../example.fixture.ts';
import { observedNode } from '../observed/node.ts';
import { lostForwarding } from './sides.ts';
import { observe, savedFiles } from './observed.fixture.ts';

const file = 'iptables-nft-save.txt';
const own = '192.0.2.11';
const packet: Packet = {
  family: 'ipv4',
  source: '198.51.100.7',
  destination: own,
  protocol: 'tcp',
  port: 30080,
  in: 'eth0',
};
const plugin = '-A FORWARD -d 10.244.0.0/16 -j ACCEPT\n';

/** Asks a node that holds the rules of example 02, with a policy of FORWARD and these rules before and behind all others. */
function lostWith(policy: 'ACCEPT' | 'DROP', rules: string, desired: Mode = 'nftables', behind = '') {
  const saved = savedFiles(bundleOf('02-node-port'), 'node-1');
  const text = (saved.get(file) ?? '').replace(/^:FORWARD ACCEPT/m, `:FORWARD ${policy}`);
  saved.set(
    file,
    text.replace(/^-A /m, () => `${rules}-A `).replace(/^COMMIT/m, () => `${behind}COMMIT`),
  );
  const node = observedNode(observe('node-1', saved), 'ipv4', [own]);
  return lostForwarding(node, { observed: ['iptables'], desired })(packet).map(({ what }) => what);
}

test('a policy DROP refuses in mode nftables what KUBE-FORWARD lets through today', () => {
  expect(lostWith('DROP', '')).toEqual(['chain KUBE-FORWARD']);
});

test.each([
  ['the policy accepts', 'ACCEPT', ''],
  ['a network plugin accepts the packets, too', 'DROP', plugin],
] as const)('nothing is lost where %s', (_, policy, rules) => {
  expect(lostWith(policy, rules)).toEqual([]);
});

test('a rule of another program behind KUBE-FORWARD refuses them, too', () => {
  expect(lostWith('ACCEPT', '', 'nftables', '-A FORWARD -j DROP\n')).toEqual(['chain KUBE-FORWARD']);
  expect(lostWith('ACCEPT', '', 'nftables', '-A FORWARD -p icmp -j DROP\n')).toEqual([]);
});

test('a mark by which another table drops them counts, too', () => {
  const drop = '*mangle\n:POSTROUTING ACCEPT [0:0]\n-A POSTROUTING -m mark --mark 0x1/0x1 -j DROP\n';
  const marked = `-A FORWARD -j MARK --set-xmark 0x1/0x1\nCOMMIT\n${drop}`;
  expect(lostWith('ACCEPT', '', 'nftables', marked)).toEqual(['chain KUBE-FORWARD']);
});

test('modes iptables and ipvs have the chain after a move, too', () => {
  expect(lostWith('DROP', '', 'ipvs')).toEqual([]);
});
