import { expect, test } from 'vitest';
import { isOutsideTree, readPath } from './tree.ts';
import { completeText, fileDigest, sumsText, treeDigest } from './seal/seal.ts';

test.each([
  ['cluster.yaml', { kind: 'cluster' }],
  ['.gitattributes', { kind: 'git' }],
  ['quarantine.yaml', { kind: 'quarantine' }],
  ['profiles/default/profile.yaml', { kind: 'profile', profile: 'default' }],
  ['profiles/gpu.large/base/sysctl.conf', { kind: 'sysctl', profile: 'gpu.large' }],
  ['profiles/default/base/first.ip6tables', { kind: 'base', profile: 'default', where: 'first', tool: 'ip6tables' }],
  [
    'profiles/default/services/shop/web.iptables',
    { kind: 'service', profile: 'default', namespace: 'shop', name: 'web', tool: 'iptables' },
  ],
  [
    'profiles/default/services/build/7.iptables',
    { kind: 'service', profile: 'default', namespace: 'build', name: '7', tool: 'iptables' },
  ],
  [
    'profiles/default/services/shop/web.ipvs',
    { kind: 'service', profile: 'default', namespace: 'shop', name: 'web', tool: 'ipvs' },
  ],
  ['profiles/default/base/first.ipset', { kind: 'base', profile: 'default', where: 'first', tool: 'ipset' }],
  ['profiles/default/base/last.nft', { kind: 'base', profile: 'default', where: 'last', tool: 'nft' }],
  ['nodes/node-a.example.org/node.yaml', { kind: 'node', node: 'node-a.example.org' }],
])('%s has a meaning', (path, meaning) => {
  expect(readPath(path)).toEqual(meaning);
});

test.each([
  'README.md',
  'profiles/default/services/shop/web.nftables',
  'profiles/default/base/last.ipset',
  'profiles/default/services/shop/../web.iptables',
  'profiles/../profile.yaml',
  'profiles/Default/profile.yaml',
  'profiles/default/base/middle.iptables',
  `profiles/default/services/shop/${'w'.repeat(64)}.iptables`,
  'profiles/default/services/shop/-web.iptables',
  'nodes/node-a/node.yaml\n',
  'nodes//node.yaml',
  '/cluster.yaml',
])('%j is not a file of a bundle', (path) => {
  expect(readPath(path)).toBeUndefined();
});

test.each([
  ['.git/config', true],
  ['.sluice-complete', true],
  ['SHA256SUMS.sig', true],
  ['cluster.yaml', false],
  ['.gitignore', false],
])('%s is outside the tree: %s', (path, outside) => {
  expect(isOutsideTree(path)).toBe(outside);
});

const empty = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';

test('the sums are those of sha256sum, in byte order, for any order of the input', () => {
  const digests = new Map([
    ['nodes/b/node.yaml', fileDigest('')],
    ['SHA256SUMS', 'x'],
    ['cluster.yaml', fileDigest(new Uint8Array())],
  ]);
  expect(sumsText(digests)).toBe(`${empty}  cluster.yaml\n${empty}  nodes/b/node.yaml\n`);
  expect(treeDigest(new Map([...digests].toReversed()))).toBe(fileDigest(sumsText(digests)));
  expect(completeText(digests)).toBe(`sha256:${treeDigest(digests)}\n`);
});
