// @module-tag quick
import { expect, test } from 'vitest';
import type { DesiredFacts, Facts, Frontend, SavedTable } from '../facts.ts';
import type { FollowedPacket, Origin } from '../packets.ts';
import { type HookPacket, meetIptables } from '../meetings.ts';
import { forwardedPacket } from '../packet.fixture.ts';
import { foreignRules, ownedBy } from './foreign-rules.ts';

const frontend = {
  family: 'ipv4',
  protocol: 'tcp',
  address: '10.96.0.10',
  port: 80,
  endpoints: [],
} as unknown as Frontend;
const request: HookPacket = {
  family: 'ipv4',
  protocol: 'tcp',
  source: '10.244.1.9',
  destination: '10.96.0.10',
  port: 80,
  original: { destination: '10.96.0.10', port: 80 },
  isReply: false,
  in: 'cali1',
  out: undefined,
  isTranslated: false,
  isMasqueraded: false,
  isToNode: false,
};

/** From a pod, or from a process of the node, to an endpoint on another node. In mode ipvs the address is one of the node. */
function followed(mode: DesiredFacts['mode'], origin: Origin): FollowedPacket {
  const first = { ...request, isToNode: mode === 'ipvs', in: origin === 'node' ? '' : 'cali1' };
  const translated = {
    ...first,
    destination: '10.244.2.6',
    port: 8080,
    isTranslated: true,
    isToNode: false,
    out: 'eth0',
  };
  const reply = {
    ...translated,
    isReply: true,
    source: '10.244.2.6',
    destination: '10.244.1.9',
    in: 'eth0',
    out: 'cali1',
  };
  return { origin, frontend, request: first, verdict: 'accept', translated, reply, endpoint: '10.244.2.6:8080' };
}

const filter = (chain: string, rule: string): SavedTable => ({
  store: 'nft',
  family: 'ipv4',
  table: 'filter',
  chains: new Map([[chain, { policy: 'ACCEPT', rules: [`-A ${chain} ${rule} -j DROP`] }]]),
});

test.each([
  ['ipvs', 'pod', filter('INPUT', '-d 10.96.0.10/32'), true],
  ['ipvs', 'node', filter('INPUT', '-d 10.96.0.10/32'), false],
  ['ipvs', 'pod', filter('OUTPUT', '-d 10.244.2.0/24'), true],
  ['ipvs', 'pod', filter('FORWARD', '-d 10.244.2.0/24'), false],
  ['ipvs', 'pod', filter('FORWARD', '-s 10.244.2.0/24'), true],
  ['iptables', 'pod', filter('INPUT', '-d 10.96.0.10/32'), false],
  ['iptables', 'pod', filter('OUTPUT', '-d 10.244.2.0/24'), false],
  ['iptables', 'pod', filter('FORWARD', '-d 10.244.2.0/24'), true],
] as const)('mode %s, from a %s: %j is in the way or not', (mode, origin, table, isInTheWay) => {
  const desired = { mode, store: 'nft', state: { families: {} } } as unknown as DesiredFacts;
  const facts = { tables: [table], nftTables: [] } as unknown as Facts;
  const { findings, unread } = foreignRules([followed(mode, origin)], desired, facts);
  expect(unread).toEqual([]);
  expect(findings.map(({ code }) => code)).toEqual(isInTheWay ? ['FOREIGN_DROP'] : []);
});

test('names what it could not follow to its end, and blames no rule behind it', () => {
  const desired = { mode: 'iptables', store: 'nft', state: { families: {} } } as unknown as DesiredFacts;
  const calls = Array.from({ length: 30 }, (_, at) => {
    const rules = at === 29 ? [] : [`-A L${at} -j L${at + 1}`, `-A L${at} -j L${at + 1}`];
    return [`L${at}`, { policy: '-', rules }] as const;
  });
  const forward = { policy: 'ACCEPT', rules: ['-A FORWARD -j L0', '-A FORWARD -j DROP'] };
  const table = { store: 'nft', family: 'ipv4', table: 'filter', chains: new Map([['FORWARD', forward], ...calls]) };
  const { findings, unread } = foreignRules([followed('iptables', 'pod'), followed('iptables', 'node')], desired, {
    tables: [table],
    nftTables: [],
  } as unknown as Facts);
  expect(findings).toEqual([]);
  expect(unread).toEqual([
    { what: 'foreign rules to their end', because: '1 of 2 packets meet more rules than are judged' },
  ]);
});

test('names chains whose rules are too many to be read', () => {
  const desired = { mode: 'iptables', store: 'nft', state: { families: {} } } as unknown as DesiredFacts;
  const cut = { policy: 'DROP', rules: [], isCut: true as const };
  const tables = [{ ...filter('FORWARD', '-d 192.0.2.0/24'), chains: new Map([['FORWARD', cut]]) }];
  const nftTables = [{ family: 'inet', name: 'fw', objects: [], cut: ['a', 'b', 'c'] }];
  const facts = { tables, nftTables } as unknown as Facts;
  expect(foreignRules([followed('iptables', 'pod')], desired, facts)).toEqual({
    findings: [],
    unread: [
      {
        what: 'all foreign rules',
        because: 'there are too many in iptables-nft -t filter FORWARD, nft inet fw a, nft inet fw b and 1 more',
      },
    ],
  });
});

test.each([
  [undefined, []],
  [0, ['it has counted no packet yet']],
  [1, ['it has counted 1 packet']],
  [4211, ['it has counted 4211 packets']],
])('says beside the prediction what a rule has counted: %s', (packets, expected) => {
  const desired = { mode: 'iptables', store: 'nft', state: { families: {} } } as unknown as DesiredFacts;
  const rule = 'iptables-nft -t filter -A FORWARD -d 10.244.2.0/24 -j DROP';
  const ruleCounters = new Map(packets === undefined ? [] : [[rule, packets]]);
  const facts = { tables: [filter('FORWARD', '-d 10.244.2.0/24')], nftTables: [], ruleCounters } as unknown as Facts;
  const [found] = foreignRules([followed('iptables', 'pod')], desired, facts).findings;
  expect(found?.evidence.slice(0, 1 + expected.length)).toEqual([rule, ...expected]);
  expect(found?.evidence.filter((line) => line.includes('counted'))).toEqual(expected);
});

/** As NodeLocal DNSCache writes them, on a node that has the address of the Service. */
const untracked: SavedTable = {
  store: 'nft',
  family: 'ipv4',
  table: 'raw',
  chains: new Map([['PREROUTING', { policy: 'ACCEPT', rules: ['-A PREROUTING -d 10.96.0.10/32 -j CT --notrack'] }]]),
};

test.each([
  ['the address', { address: '10.96.0.10', port: 80 }, []],
  ['another address', { address: '10.96.0.99', port: 80 }, ['FOREIGN_NOTRACK']],
  ['another port', { address: '10.96.0.10', port: 81 }, ['FOREIGN_NOTRACK']],
])('NOTRACK for an address of the node, where a program listens on %s', (_title, listener, expected) => {
  const desired = { mode: 'iptables', store: 'nft', state: { families: {} } } as unknown as DesiredFacts;
  const listeners = [{ ...listener, protocol: 'tcp', program: 'node-cache (pid 9)' }];
  const packet = followed('iptables', 'pod');
  const local = { ...packet, request: { ...packet.request, isToNode: true } };
  const facts = { tables: [untracked], nftTables: [], listeners } as unknown as Facts;
  expect(foreignRules([local], desired, facts).findings.map(({ code }) => code)).toEqual(expected);
});

test('a reply of an endpoint on the node passes OUTPUT, where NOTRACK keeps it from being translated back', () => {
  const desired = { mode: 'iptables', store: 'nft', state: { families: {} } } as unknown as DesiredFacts;
  const packet = followed('iptables', 'pod');
  const [translated, reply] = [packet.translated, packet.reply];
  const local = {
    ...packet,
    translated: translated && { ...translated, isToNode: true },
    reply: reply && { ...reply, in: '' },
  };
  const rules = ['-A OUTPUT -p tcp -m tcp --sport 8080 -j CT --notrack'];
  const table = { ...untracked, chains: new Map([['OUTPUT', { policy: 'ACCEPT', rules }]]) };
  const facts = { tables: [table], nftTables: [] } as unknown as Facts;
  expect(foreignRules([local], desired, facts).findings.map(({ code }) => code)).toEqual(['FOREIGN_NOTRACK']);
});

test('a rule of a known owner is not to be removed', () => {
  const drop = '-A FORWARD -i eth0 -m comment --comment "cali:d" -j DROP';
  expect(
    ownedBy({ name: 'Calico', does: 'network policy of pods', inspect: 'kubectl get networkpolicies -A' }),
  ).toEqual(['it belongs to Calico, for network policy of pods: change it there']);
  const chains = new Map([['FORWARD', { policy: 'ACCEPT', rules: [drop] }]]);
  const table = { store: 'nft', family: 'ipv4', table: 'filter', chains } as const;
  const [met] = meetIptables(table, 'FORWARD', { ...forwardedPacket, in: 'eth0' }, () => false, { left: 100 });
  expect(met).toMatchObject({ kind: 'drop', owner: { name: 'Calico' }, fix: 'kubectl get networkpolicies -A' });
});

test.each([
  ['-A DOCKER-USER -j RETURN', 'iptables -S DOCKER-USER'],
  ['-A ufw-before-forward -j RETURN', 'ufw status verbose'],
])('a policy of a table with rules such as %s is of their owner', (rule, fix) => {
  const chain = rule.split(' ')[1] ?? '';
  const chains = new Map([
    ['FORWARD', { policy: 'DROP', rules: [] }],
    [chain, { policy: '-', rules: [rule] }],
  ]);
  const table = { store: 'nft', family: 'ipv4', table: 'filter', chains } as const;
  expect(meetIptables(table, 'FORWARD', forwardedPacket, () => false, { left: 100 })).toMatchObject([
    { kind: 'drop', fix },
  ]);
});
