import { expect, test } from 'vitest';
import { canonicalRule, printRule } from '../rules/print.ts';
import { readRule } from '../rules/read.ts';
import { cart, cartIPv6 } from './cart.fixture.ts';
import { linkFlat } from './flat.ts';
import type { ResolvedRules } from './program.ts';

const [x, y, z] = ['X', 'Y', 'Z'].map((letter) => `KUBE-SVC-${letter.repeat(16)}`) as [string, string, string];
const nothing = { chains: [], rules: [] };

function filterOf(chains: readonly string[], ...rules: readonly string[]): ResolvedRules {
  return { filter: { chains, rules }, nat: nothing };
}

function natOf(chains: readonly string[], ...rules: readonly string[]): ResolvedRules {
  return { filter: nothing, nat: { chains, rules } };
}

test('every rule is in its chain, in the order of the files', () => {
  const { program, problems } = linkFlat(cart(), 'ipv4');
  expect(problems).toEqual([]);
  expect([...program.nat.chains.keys()].slice(0, 4)).toEqual([
    'KUBE-SERVICES',
    'KUBE-NODEPORTS',
    'KUBE-POSTROUTING',
    'KUBE-MARK-MASQ',
  ]);
  expect([...program.nat.chains.values()].flat().map(canonicalRule).toSorted()).toEqual(
    cart().nat.rules.map(canonicalRule).toSorted(),
  );
  expect(program.nat.chains.get('KUBE-SERVICES')?.at(-1)).toContain('this must be the last rule');
});

test('the jumps are in the order that results from inserting them one by one', () => {
  const { program } = linkFlat(cart(), 'ipv4');
  const short = (jumps: readonly string[]): string[] => jumps.map((jump) => jump.replace(/^-A (\S+) .*-j /, '$1 '));
  expect(short(program.filter.jumps)).toEqual([
    'INPUT KUBE-FIREWALL',
    'INPUT KUBE-PROXY-FIREWALL',
    'INPUT KUBE-NODEPORTS',
    'INPUT KUBE-EXTERNAL-SERVICES',
    'FORWARD KUBE-PROXY-FIREWALL',
    'FORWARD KUBE-FORWARD',
    'FORWARD KUBE-SERVICES',
    'FORWARD KUBE-EXTERNAL-SERVICES',
    'OUTPUT KUBE-FIREWALL',
    'OUTPUT KUBE-PROXY-FIREWALL',
    'OUTPUT KUBE-SERVICES',
  ]);
  expect(short(program.nat.jumps)).toEqual([
    'PREROUTING KUBE-SERVICES',
    'OUTPUT KUBE-SERVICES',
    'POSTROUTING KUBE-POSTROUTING',
  ]);
});

test('rules and jumps read as iptables-save prints them', () => {
  const { filter, nat } = linkFlat(cart(), 'ipv4').program;
  const lines = [filter, nat].flatMap(({ chains, jumps }) => [...[...chains.values()].flat(), ...jumps]);
  const spelled = lines.map((line) => {
    const rule = readRule(line, 'ipv4');
    return 'error' in rule ? rule.error : printRule(rule, 'ipv4');
  });
  expect(lines).toEqual(spelled);
});

test('only chains that are declared are jumped to', () => {
  const { program } = linkFlat(filterOf(['KUBE-SERVICES']), 'ipv4');
  expect(program.filter.jumps.map((jump) => jump.split(' ')[1])).toEqual(['FORWARD', 'OUTPUT']);
  expect(program.nat.jumps).toEqual([]);
});

test('IPv6 rules link like IPv4 rules', () => {
  expect(linkFlat(cartIPv6(), 'ipv6').problems).toEqual([]);
  expect(linkFlat(cartIPv6(), 'ipv4').problems.length).toBeGreaterThan(0);
});

test.each<[string, ResolvedRules, string]>([
  ['a rule outside the grammar', natOf([x], `-A ${x} -M /bin/sh -j ACCEPT`), 'option -M'],
  ['a rule in a chain that is not declared', natOf([], `-A ${x} -j ACCEPT`), `chain ${x} is not declared`],
  ['a rule in a built-in chain', natOf([], '-A PREROUTING -j ACCEPT'), 'chain PREROUTING is not declared'],
  ['a built-in chain that is declared', filterOf(['INPUT']), 'kube-proxy has no chain'],
  ['a foreign chain', natOf(['cali-PREROUTING']), 'kube-proxy has no chain'],
  ["a network policy controller's chain", filterOf(['KUBE-ROUTER-INPUT']), 'kube-proxy has no chain'],
  ["the kubelet's chain", natOf(['KUBE-KUBELET-CANARY']), 'kube-proxy has no chain'],
  ["a Service's chain in filter", filterOf([`KUBE-SVC-${'X'.repeat(16)}`]), 'no chain of this name in filter'],
  ["a Service's chain with a short hash", natOf([`KUBE-SVC-${'X'.repeat(15)}`]), 'kube-proxy has no chain'],
  ['a base chain in the other table', natOf(['KUBE-FORWARD']), 'no chain of this name in nat'],
  ['a chain of 29 characters', natOf([`KUBE-SVC-${'X'.repeat(20)}`]), 'kube-proxy has no chain'],
  ['a chain that is declared twice', natOf([x, x]), 'declared twice'],
  ['a jump to a chain that is not declared', natOf([x], `-A ${x} -j ${y}`), `chain ${y}, which is not declared`],
  ['a goto to a chain that is not declared', natOf([x], `-A ${x} -g ${y}`), `chain ${y}, which is not declared`],
  ['a drop in nat', natOf([x], `-A ${x} -j DROP`), 'only in the filter table'],
  ['a reject in nat', natOf([x], `-A ${x} -j REJECT`), 'only in the filter table'],
  ['a masquerade in filter', filterOf(['KUBE-SERVICES'], '-A KUBE-SERVICES -j MASQUERADE'), 'only in the nat table'],
  [
    'a translation in filter',
    filterOf(['KUBE-SERVICES'], '-A KUBE-SERVICES -p tcp -j DNAT --to-destination 10.0.0.1:80'),
    'only in the nat table',
  ],
  [
    'a variable that is not filled in',
    natOf([x], `-A ${x} -d \${host.nodePortAddresses} -j ACCEPT`),
    'neither an address',
  ],
  ['a rule of the other family', natOf([x], `-A ${x} -d fd00::1 -j ACCEPT`), 'does not belong to family ipv4'],
  ['a chain that jumps to itself', natOf([x], `-A ${x} -j ${x}`), `form a loop (${x})`],
  [
    'chains that form a loop',
    natOf([x, y, z], `-A ${x} -j ${y}`, `-A ${x} -j ${z}`, `-A ${y} -g ${x}`),
    `form a loop (${x}, ${y})`,
  ],
])('refuses %s', (_title, rules, reason) => {
  const { problems } = linkFlat(rules, 'ipv4');
  expect(problems.map((problem) => problem.code)).toEqual(['RULE_REFUSED']);
  expect(problems[0]?.message).toContain(reason);
});

test('all problems are listed at once', () => {
  const rules = natOf([x, x], `-A ${y} -j ACCEPT`, `-A ${x} -j DROP`, '-F');
  expect(linkFlat(rules, 'ipv4').problems).toHaveLength(4);
});

test.each([
  [1_000, true],
  [1_001, false],
])('with %i endpoints the comments of endpoint rules stay: %s', (count, stays) => {
  const endpoints = Array.from({ length: count }, (_, index) => endpointChain(index));
  const first = endpointChain(0);
  const rules = natOf(
    [x, 'KUBE-MARK-MASQ', ...endpoints],
    `-A ${x} -m comment --comment "shop/web cluster IP" ! -s 10.244.0.0/16 -j KUBE-MARK-MASQ`,
    `-A ${x} -m comment --comment "shop/web -> \\"10.0.0.1:80" -j ${first}`,
    `-A ${first} -m comment --comment shop/web -s 10.0.0.1 -j KUBE-MARK-MASQ`,
  );
  const { program, problems } = linkFlat(rules, 'ipv4');
  const comment = (text: string): string => (stays ? ` -m comment --comment ${text}` : '');
  expect(problems).toEqual([]);
  expect(program.nat.chains.get(x)).toEqual([
    `-A ${x} ! -s 10.244.0.0/16 -m comment --comment "shop/web cluster IP" -j KUBE-MARK-MASQ`,
    `-A ${x}${comment('"shop/web -> \\"10.0.0.1:80"')} -j ${first}`,
  ]);
  expect(program.nat.chains.get(first)).toEqual([
    `-A ${first} -s 10.0.0.1/32${comment('"shop/web"')} -j KUBE-MARK-MASQ`,
  ]);
});

/** A name from the alphabet of chain hashes for each number. */
function endpointChain(index: number): string {
  return `KUBE-SEP-${index
    .toString(8)
    .padStart(16, 'A')
    .replaceAll(/[01]/g, (digit) => 'YZ'[Number(digit)] ?? '')}`;
}
