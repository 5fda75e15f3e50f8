import { expect, test } from 'vitest';
import type { ProfileFile, VariableValues } from './documents.ts';
import { dependsOnHost, fillHost, invalidDrop } from '../../netfilter/src/rules/host-values.ts';
import { fillVariables, profileOn, resolveFile, type Scope } from './resolve.ts';
import { readRuleFile } from './read-rulefile.ts';
import type { Family } from '../../netfilter/src/family.ts';
import type { RuleFile } from './rulefile.ts';

const scope: Scope = {
  family: 'ipv4',
  node: 'node-a',
  zone: 'a',
  nodeValues: {
    cores: 8,
    addresses: ['192.0.2.1', '192.0.2.2'],
    ipv4: { address: '192.0.2.11' },
    ipv6: { address: 'fd00::11' },
  },
  profileValues: { ipv4: { clusterCIDR: '10.244.0.0/16' }, empty: '', dollars: '$& $1 $$' },
};
const elsewhere: Scope = { ...scope, node: 'node-b', zone: undefined, nodeValues: {} };

function nat(chains: readonly string[], ...rules: readonly string[]): RuleFile {
  const text = `*nat\n${chains.map((chain) => `:${chain} - [0:0]\n`).join('')}${rules.join('\n')}\nCOMMIT\n`;
  const file = readRuleFile('test.iptables', text);
  if (!('sections' in file)) throw new Error(JSON.stringify(file));
  return file;
}
const rulesOf = (file: RuleFile, on: Scope): readonly string[] => resolveFile(file, on)[0]?.rules ?? [];

test.each([
  ['@zone=a,b', true, false],
  ['@zone=b', false, false],
  ['@zone!=b', true, true],
  ['@zone!=a', false, true],
  ['@node=node-a', true, false],
  ['@node!=node-a', false, true],
  ['@ip-in=192.0.2.0/24', true, false],
  ['@ip-in=10.0.0.0/8,192.0.2.11/32', true, false],
  ['@ip-not-in=192.0.2.0/24', false, true],
  ['@ip-in=10.0.0.0/8', false, false],
])('guard %s applies to node-a: %s, to a node without zone and address: %s', (guard, here, there) => {
  const file = nat([], `${guard} -A KUBE-SERVICES -j RETURN`);
  expect([rulesOf(file, scope).length === 1, rulesOf(file, elsewhere).length === 1]).toEqual([here, there]);
});

const local = nat(
  ['KUBE-SEP-A', 'KUBE-SVL-A'],
  '@local=KUBE-SVL-A -A KUBE-SERVICES -d 10.96.0.1 -j KUBE-SVL-A',
  '@nolocal=KUBE-SVL-A -A KUBE-SERVICES -d 10.96.0.1 -j RETURN',
  '@local=KUBE-SVL-A -A KUBE-SVL-A -j KUBE-MARK-MASQ',
  '@node=node-a -A KUBE-SVL-A -j KUBE-SEP-A',
  '-A KUBE-SEP-A -j DNAT --to-destination 10.244.1.5:80',
);

test('a node with a local endpoint has the chain and the jumps to it', () => {
  expect(resolveFile(local, scope)).toEqual([
    {
      table: 'nat',
      chains: ['KUBE-SEP-A', 'KUBE-SVL-A'],
      rules: [
        '-A KUBE-SERVICES -d 10.96.0.1 -j KUBE-SVL-A',
        '-A KUBE-SVL-A -j KUBE-MARK-MASQ',
        '-A KUBE-SVL-A -j KUBE-SEP-A',
        '-A KUBE-SEP-A -j DNAT --to-destination 10.244.1.5:80',
      ],
    },
  ]);
});

test('a node without one has neither, nor the endpoint chain that only it jumped to', () => {
  expect(resolveFile(local, elsewhere)).toEqual([
    { table: 'nat', chains: [], rules: ['-A KUBE-SERVICES -d 10.96.0.1 -j RETURN'] },
  ]);
});

test('chains nested as deep as a file allows are followed to the end', () => {
  const names = Array.from({ length: 20_000 }, (_, index) => `KUBE-X-${index}`);
  const jumps = names.map((name, index) => `-A ${index === 0 ? 'KUBE-SERVICES' : names[index - 1]} -j ${name}`);
  const file: RuleFile = {
    header: [],
    sections: [{ table: 'nat', chains: names, rules: jumps.map((text) => ({ text })) }],
  };
  expect(resolveFile(file, scope)[0]?.chains).toHaveLength(names.length);
});

test('a chain that is reached by goto only is kept', () => {
  const rules = ['-A KUBE-SERVICES -g KUBE-SEP-A', '-A KUBE-SEP-A -j RETURN'];
  expect(resolveFile(nat(['KUBE-SEP-A'], ...rules), scope)[0]).toMatchObject({ chains: ['KUBE-SEP-A'], rules });
});

test('base chains without references are kept', () => {
  expect(resolveFile(nat(['KUBE-SERVICES'], '-A KUBE-SERVICES -j RETURN'), scope, true)[0]?.chains).toEqual([
    'KUBE-SERVICES',
  ]);
});

test.each([
  ['a text stays as it is without variables', '-A X -j RETURN', ['-A X -j RETURN']],
  ['the family decides the value', '-A X -s ${node.address} -j RETURN', ['-A X -s 192.0.2.11 -j RETURN']],
  ['a common value serves every family', 'k = ${node.cores}', ['k = 8']],
  ['a list repeats the line', '-A X -s ${node.addresses}', ['-A X -s 192.0.2.1', '-A X -s 192.0.2.2']],
  ['a missing value leaves the line out', '-A X -s ${node.podCIDR}', []],
  ['an empty value leaves the line out', '-A X -s ${profile.empty}', []],
  ['inherited names are no values', '-A X -s ${node.constructor}', []],
  ['the same variable twice is filled in twice', '${node.cores} ${node.cores}', ['8 8']],
  ['two variables are filled in', '${profile.clusterCIDR} ${node.cores}', ['10.244.0.0/16 8']],
  ['a value is taken letter by letter', '${profile.dollars}', ['$& $1 $$']],
  ['${host.*} is left for the machine', '-d ${host.nodePortAddresses}', ['-d ${host.nodePortAddresses}']],
])('%s', (_title, text, lines) => {
  expect(fillVariables(text, scope)).toEqual(lines);
});

const address = { ipv4: { address: '192.0.2.11' }, ipv6: { address: 'fd00::11' } };

test.each<[string, readonly Family[], VariableValues, string[], string[]]>([
  ['networks stay as they are', ['ipv4'], address, ['10.0.0.0/8'], ['10.0.0.0/8']],
  [
    'primary is the address of each family',
    ['ipv4', 'ipv6'],
    address,
    ['10.0.0.0/8', 'primary'],
    ['10.0.0.0/8', '192.0.2.11/32', 'fd00::11/128'],
  ],
  ['of families that the profile has', ['ipv6'], address, ['::1/128', 'primary'], ['::1/128', 'fd00::11/128']],
  ['a node without an address has none', ['ipv4', 'ipv6'], { cores: 8 }, ['10.0.0.0/8', 'primary'], ['10.0.0.0/8']],
])('node ports of one node: %s', (_title, families, values, nodePortAddresses, expected) => {
  const profile: ProfileFile = { mode: 'iptables', families, needs: [], nodePortAddresses, values: {} };
  expect(profileOn(profile, { profile: 'p', values }).nodePortAddresses).toEqual(expected);
});

test('variables of the machine are filled in', () => {
  expect(fillHost('-d ${host.nodePortAddresses}', { nodePortAddresses: ['192.0.2.1', '192.0.2.2'] })).toEqual([
    '-d 192.0.2.1',
    '-d 192.0.2.2',
  ]);
  expect(fillHost('-d ${host.nodePortAddresses}', {})).toEqual([]);
});

test.each([
  ['a strict machine drops what it calls INVALID', invalidDrop, false, [invalidDrop]],
  ['a liberal one lets it pass', invalidDrop, true, []],
  ['a liberal one keeps other rules', '-A KUBE-FORWARD -j ACCEPT', true, ['-A KUBE-FORWARD -j ACCEPT']],
] as const)('%s', (_title, rule, tcpBeLiberal, expected) => {
  expect(fillHost(rule, { tcpBeLiberal })).toEqual(expected);
});

test('a rule depends on the machine if it has a ${host.*} variable, or is the INVALID drop', () => {
  expect([invalidDrop, '-d ${host.nodePortAddresses}', '-d ${node.address}'].map(dependsOnHost)).toEqual([
    true,
    true,
    false,
  ]);
});
