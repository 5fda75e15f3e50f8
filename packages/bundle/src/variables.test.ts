import { expect, test } from 'vitest';
import { readNode, readProfile } from './documents.ts';
import { areValues, unknownVariable } from './variables.ts';

test.each([
  ['node', { cores: 8, conntrackMax: 262_144, conntrackHashSize: 65_536 }],
  ['node', { ipv4: { address: '192.0.2.11', podCIDR: '10.244.1.0/24' }, ipv6: { address: 'fd00::11' } }],
  ['profile', { ipv4: { clusterCIDR: '10.244.0.0/16' }, ipv6: { clusterCIDR: 'fd00:10:244::/56' } }],
  ['profile', { bridgeInterface: 'cni0' }],
  ['profile', { interfaceNamePrefix: 'cali' }],
  ['profile', {}],
] as const)('%s may have %j', (owner, values) => {
  expect(areValues(owner, values)).toBe(true);
});

test.each([
  ['an unknown name', 'node', { adress: '192.0.2.11' }],
  ["an object's own name", 'node', { constructor: 'x' }],
  ["an object's own name in a family", 'node', { ipv4: { toString: '192.0.2.1' } }],
  ['a value that is no text', 'node', { ipv4: { address: 1 } }],
  ['an address of the other family', 'node', { ipv4: { address: 'fd00::11' } }],
  ['an address with trailing words', 'node', { ipv4: { address: '192.0.2.11 -j ACCEPT' } }],
  ['an address with a second line', 'node', { ipv4: { address: '192.0.2.11\n-A INPUT -j ACCEPT' } }],
  ['an address outside of its family', 'node', { address: '192.0.2.11' }],
  ['a list', 'node', { ipv4: { address: ['192.0.2.11'] } }],
  ['a network that is none', 'node', { ipv4: { podCIDR: '10.244.1.0/33' } }],
  ['half a core', 'node', { cores: 0.5 }],
  ['no number', 'node', { conntrackMax: Number.NaN }],
  ['a number as text', 'node', { conntrackMax: '9' }],
  ['a hash table larger than its connections could need', 'node', { conntrackHashSize: 0x20000000 }],
  ['a hash table of no size', 'node', { conntrackHashSize: 0 }],
  ['an interface with quotes', 'profile', { bridgeInterface: 'cni0"' }],
  ['an interface with a variable', 'profile', { bridgeInterface: '${host.x}' }],
  ['a prefix that no interface name has room for', 'profile', { interfaceNamePrefix: 'a'.repeat(15) }],
  ['a value of the other file', 'profile', { cores: 8 }],
  ['a family that is no mapping', 'profile', { ipv4: '10.244.0.0/16' }],
  ['no mapping at all', 'profile', ['x']],
] as const)('%s is refused', (_title, owner, values) => {
  expect(areValues(owner, values)).toBe(false);
});

test('the documents accept only their own values', () => {
  const head = 'apiVersion: sluice.dev/v1alpha1\n';
  const profile = 'kind: Profile\nmode: iptables\nneeds: []\nnodePortAddresses: []\n';
  expect(readNode('n', `${head}kind: Node\nprofile: p\nvalues: { bridgeInterface: cni0 }\n`)).toHaveProperty('code');
  expect(readProfile('p', `${head}${profile}families: [ipv4]\nvalues: { cores: 8 }\n`)).toHaveProperty('code');
  expect(readProfile('p', `${head}${profile}families: []\nvalues: {}\n`)).toHaveProperty('code');
  expect(readProfile('p', `${head}${profile}families: [ipv4, ipv4]\nvalues: {}\n`)).toHaveProperty('code');
  const whole = `${head}${profile}families: [ipv4]\nvalues: {}\n`;
  expect(readProfile('p', whole)).not.toHaveProperty('code');
  const withAddresses = (list: string): object =>
    readProfile('p', whole.replace('Addresses: []', `Addresses: ${list}`));
  for (const list of ['[primary]', '[primary, primary]', '[primary, 10.0.0.0/8, primary]', '[localhost]'])
    expect(withAddresses(list)).toHaveProperty('code');
  expect(withAddresses('[10.0.0.0/8, primary]')).not.toHaveProperty('code');
});

test.each([
  ['-A X -s ${node.address} -d ${host.nodePortAddresses}', undefined],
  ['k = ${node.conntrackMax}', undefined],
  ['-A X', undefined],
  ['-s ${node.adress}', '${node.adress'],
  ['-s ${node.clusterCIDR}', '${node.clusterCIDR'],
  ['-s ${host.address}', '${host.address'],
  ['-s ${env.PATH}', '${env.PATH'],
  ['-s ${node.constructor}', '${node.constructor'],
  ['-s ${node.cores', '${node.cores'],
  ['-s ${${node.cores}}', '${${node.cores'],
])('the first unknown variable of %s is %s', (text, stray) => {
  expect(unknownVariable(text)).toBe(stray);
});
