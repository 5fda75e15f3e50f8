import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Family } from '../family.ts';
import { canonicalRule, printRule } from './print.ts';
import { readRule } from './read.ts';
import { certain, conntrackStates, type Match, type Rule, type Target } from './rule.ts';

const chain = fc.stringMatching(/^KUBE-[A-Z0-9]{1,23}$/);
const port = fc.integer({ min: 1, max: 65_535 });
const bits = fc.nat({ max: 0xffffffff });
const comment = fc.stringMatching(/^[ -~]{1,60}$/).filter((text) => !text.startsWith('-'));

const matches: fc.Arbitrary<Match[]> = fc.uniqueArray(
  fc.oneof(
    comment.map((text): Match => ({ kind: 'comment', text })),
    fc
      .record({ negated: fc.boolean(), states: fc.subarray([...conntrackStates], { minLength: 1 }) })
      .map((rest): Match => ({ kind: 'conntrack', ...rest })),
    fc.record({ negated: fc.boolean(), value: bits, mask: bits }).map((rest): Match => ({ kind: 'mark', ...rest })),
    fc.constantFrom<Match>(
      { kind: 'addrtype', side: 'source' },
      { kind: 'addrtype', side: 'source', negated: true },
      { kind: 'addrtype', side: 'destination' },
      { kind: 'physdev' },
    ),
    fc.nat({ max: certain }).map((chance): Match => ({ kind: 'statistic', chance })),
    chain.map((name): Match => ({ kind: 'recent', action: 'set', name, reap: false })),
    fc
      .record({ name: chain, seconds: fc.integer({ min: 1, max: 86_400 }), reap: fc.boolean() })
      .map((rest): Match => ({ kind: 'recent', action: 'rcheck', ...rest })),
    port.map((destinationPort): Match => ({ kind: 'tcp', destinationPort })),
  ),
  { selector: (match) => match.kind, maxLength: 4 },
);

const targets: fc.Arbitrary<Target> = fc.oneof(
  fc.record({ kind: fc.constantFrom('jump' as const, 'goto' as const), chain }),
  fc.constantFrom<Target>({ kind: 'accept' }, { kind: 'drop' }, { kind: 'return' }, { kind: 'reject' }),
  fc.record({ value: bits, mask: bits }).map((rest): Target => ({ kind: 'mark', ...rest })),
  fc.boolean().map((randomFully): Target => ({ kind: 'masquerade', randomFully })),
  port.map((number): Target => ({ kind: 'dnat', address: '10.244.1.5', port: number })),
);

const networks = fc.record({ negated: fc.boolean(), value: fc.constantFrom('10.244.0.0/16', '192.0.2.1/32') });
const interfaces = fc.record({ negated: fc.boolean(), value: fc.constantFrom('cni0', 'cali+') });

const rules: fc.Arbitrary<Rule> = fc
  .record(
    { chain, matches, source: networks, destination: networks, in: interfaces, out: interfaces, target: targets },
    { requiredKeys: ['chain', 'matches'] },
  )
  .map((rule) => ({ ...rule, protocol: 'tcp' }));

test.each<[string, Family | undefined]>([
  ['without a family', undefined],
  ['for IPv4', 'ipv4'],
])('a rule printed %s reads back', (_title, family) => {
  fc.assert(
    fc.property(rules, (rule) => {
      expect(readRule(printRule(rule, family), family)).toEqual(rule);
    }),
  );
});

test('every probability survives printing', () => {
  fc.assert(
    fc.property(fc.nat({ max: 2_048 }), (step) => {
      const rule: Rule = { chain: 'KUBE-X', matches: [{ kind: 'statistic', chance: step * 0x80000 }] };
      expect(readRule(printRule(rule))).toEqual(rule);
    }),
  );
});

test.each([
  [
    'a rule as fed and as saved',
    '-A KUBE-X -m tcp -p tcp -d 10.0.0.1 -j REJECT',
    '-A KUBE-X -d 10.0.0.1/32 -p tcp -m tcp -j REJECT --reject-with icmp-port-unreachable',
  ],
  ['a bare match of the protocol and none', '-A KUBE-X -p tcp -m tcp -j DROP', '-A KUBE-X -p tcp -j DROP'],
  [
    'an IPv6 address in the spelling of the C library',
    '-A KUBE-X -d ::102:304 -j DROP',
    '-A KUBE-X -d ::1.2.3.4/128 -j DROP',
  ],
  [
    'a foreign rule with other spaces',
    '-A cali-FORWARD  -j  LOG --log-prefix "a  b" ',
    '-A cali-FORWARD -j LOG --log-prefix "a  b"',
  ],
])('%s have one canonical text', (_title, one, other) => {
  expect(canonicalRule(one)).toBe(canonicalRule(other));
});

test.each([
  ['the port', '-A KUBE-X -p tcp -m tcp --dport 80 -j DROP', '-A KUBE-X -p tcp -m tcp --dport 81 -j DROP'],
  ['a negation', '-A KUBE-X -i cni0 -j DROP', '-A KUBE-X ! -i cni0 -j DROP'],
  ['the spaces of a foreign comment', '-A cali-X -m comment --comment "a b"', '-A cali-X -m comment --comment "a  b"'],
])('rules that differ in %s have two canonical texts', (_title, one, other) => {
  expect(canonicalRule(one)).not.toBe(canonicalRule(other));
});
