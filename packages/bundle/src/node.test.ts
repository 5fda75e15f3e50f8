import { runs } from '@sluice/testing';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { nodesOf, resolveNode, type ResolvedNode, resolveSections } from './node.ts';
import { ResolveCache, ruleFiles } from './resolve-cache.ts';

const profile = (name: string, extra = ''): [string, string] => [
  `profiles/${name}/profile.yaml`,
  `apiVersion: sluice.dev/v1alpha1\nkind: Profile\nmode: iptables\nfamilies: [ipv4, ipv6]\nneeds: []\nnodePortAddresses: []\nvalues:\n  ipv4: { clusterCIDR: 10.244.0.0/16 }\n${extra}`,
];
const node = (name: string, zone: string, address: string): [string, string] => [
  `nodes/${name}/node.yaml`,
  `apiVersion: sluice.dev/v1alpha1\nkind: Node\nprofile: default\nzone: ${zone}\nvalues:\n  conntrackMax: 262144\n  conntrackHashSize: 65536\n  ipv4: { address: ${address} }\n`,
];
const cluster: [string, string] = [
  'cluster.yaml',
  'apiVersion: sluice.dev/v1alpha1\nkind: Cluster\nformat: 1\nname: shop\ncomplete: true\nserviceCIDRs: [10.96.0.0/12]\n',
];
const service = (name: string, ...rules: readonly string[]): [string, string] => [
  `profiles/default/services/shop/${name}.iptables`,
  `# shop/${name}\n*nat\n${rules.join('\n')}\nCOMMIT\n`,
];
const base: [string, string][] = [
  ['profiles/default/base/first.iptables', '*nat\n:KUBE-SERVICES - [0:0]\nCOMMIT\n'],
  ['profiles/default/base/last.iptables', '*nat\n-A KUBE-SERVICES -d ${host.nodePortAddresses} -j RETURN\nCOMMIT\n'],
  ['profiles/default/base/sysctl.conf', 'net.netfilter.nf_conntrack_max = ${node.conntrackMax}\n'],
];
const files = new Map([
  cluster,
  profile('default'),
  node('node-a', 'a', '192.0.2.11'),
  node('node-b', 'b', '192.0.2.12'),
  node('node-c', 'b', '192.0.2.13'),
  ...base,
  service(
    'web',
    '-A KUBE-SERVICES -d 10.96.0.1 ! -s ${profile.clusterCIDR} -j RETURN',
    '@zone=a -A KUBE-SERVICES -d 10.96.0.2 -j RETURN',
  ),
  service('web-2', '-A KUBE-SERVICES -d 10.96.0.3 -j RETURN'),
]);

function resolved(name: string, of: ReadonlyMap<string, string> = files, cache?: ResolveCache): ResolvedNode {
  const result = resolveNode(of, name, cache);
  if (!('version' in result)) throw new Error(JSON.stringify(result));
  return result;
}

test('a node has base/first, then the Services by name, then base/last', () => {
  expect(resolved('node-a')).toMatchObject({
    profileName: 'default',
    rules: {
      ipv4: {
        nat: {
          chains: ['KUBE-SERVICES'],
          rules: [
            '-A KUBE-SERVICES -d 10.96.0.1 ! -s 10.244.0.0/16 -j RETURN',
            '-A KUBE-SERVICES -d 10.96.0.2 -j RETURN',
            '-A KUBE-SERVICES -d 10.96.0.3 -j RETURN',
            '-A KUBE-SERVICES -d ${host.nodePortAddresses} -j RETURN',
          ],
        },
        filter: { chains: [], rules: [] },
      },
      ipv6: { nat: { chains: [], rules: [] } },
    },
    sysctls: ['net.netfilter.nf_conntrack_max = 262144'],
    conntrackHashSize: 65536,
  });
});

test('the order is that of namespace/name, not of the file names', () => {
  const paths = ['web', 'web-2', 'we'].map((name) => service(name)[0]);
  expect(ruleFiles(new Map(paths.map((path) => [path, ''])), 'default', 'iptables')).toEqual([
    paths[2],
    paths[0],
    paths[1],
  ]);
});

test('nodes have one version exactly when they have the same rules', () => {
  expect(resolved('node-b').version).toBe(resolved('node-c').version);
  expect(resolved('node-a').version).not.toBe(resolved('node-b').version);
});

test.each([
  [
    'a line for other nodes does not change the version',
    service('web-2', '@zone!=b -A KUBE-SERVICES -j DROP', '-A KUBE-SERVICES -d 10.96.0.3 -j RETURN'),
    true,
  ],
  [
    'a file that resolves to nothing does not change it',
    service('none', '@node=elsewhere -A KUBE-SERVICES -j RETURN'),
    true,
  ],
  ['a rule changes it', service('web-2', '-A KUBE-SERVICES -d 10.96.0.4 -j RETURN'), false],
  [
    'a sysctl changes it',
    ['profiles/default/base/sysctl.conf', 'net.netfilter.nf_conntrack_max = 9\n'] as [string, string],
    false,
  ],
  [
    'a rule of another zone does not',
    service('web-2', '-A KUBE-SERVICES -d 10.96.0.3 -j RETURN', '@zone=a -A KUBE-SERVICES -j RETURN'),
    true,
  ],
])('%s', (_title, change, same) => {
  const changed = new Map(files).set(...change);
  expect(resolved('node-b', changed).version === resolved('node-b').version).toBe(same);
});

test('a cache returns the rules of each node, and notices a change', () => {
  const cache = new ResolveCache();
  for (const name of ['node-a', 'node-b', 'node-a', 'node-c'])
    expect(resolved(name, files, cache)).toEqual(resolved(name));
  const changed = new Map(files).set(...service('web', '-A KUBE-SERVICES -d 10.96.0.9 -j RETURN'));
  expect(resolved('node-a', changed, cache)).toEqual(resolved('node-a', changed));
  const other = new Map(files).set(...profile('default', '  bridgeInterface: br0\n'));
  expect(resolved('node-a', other, cache)).toEqual(resolved('node-a', other));
});

test('a cache forgets files that a bundle no longer has', () => {
  const cache = new ResolveCache();
  const sizes = [1, 2, 3, 4].map((n) => {
    const later = new Map(files).set(...service(`preview-${n}`, '-A KUBE-SERVICES -d 10.96.0.9 -j RETURN'));
    resolved('node-a', later, cache);
    return cache.size;
  });
  expect(new Set(sizes).size).toBe(1);
});

/** A change of a bundle. */
const edits = fc.oneof(
  fc
    .record({ name: fc.constantFrom('web', 'web-2', 'cart', 'a'), address: fc.integer({ min: 1, max: 4 }) })
    .map(({ name, address }) => service(name, `-A KUBE-SERVICES -d 10.96.1.${address} -j RETURN`)),
  fc.constantFrom('web', 'web-2', 'cart').map((name): [string, undefined] => [service(name)[0], undefined]),
  fc.constant(service('web', 'no rule at all')),
  fc.constantFrom('a', 'b').map((zone) => node('node-a', zone, '192.0.2.11')),
  fc.constantFrom('', '  bridgeInterface: br0\n').map((extra) => profile('default', extra)),
  fc.constant<[string, string]>(['profiles/default/services/shop/web.ipset', 'create X hash:net\n']),
);

test('after random histories a cached result equals a fresh one, and unchanged parts keep their identity', () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(edits, fc.constantFrom('node-a', 'node-a', 'node-b')), { maxLength: 14 }),
      (steps) => {
        const cache = new ResolveCache();
        let now = new Map(files);
        for (const [[path, text], name] of steps) {
          now = new Map(now);
          if (text === undefined) now.delete(path);
          else now.set(path, text);
          const found = resolveSections(now, name, cache);
          expect(found).toEqual(resolveSections(now, name));
          const again = resolveSections(new Map(now), name, cache);
          if (!('version' in found) || !('version' in again)) continue;
          for (const [family, sections] of found.sections)
            expect(sections.every((one, at) => one === again.sections.get(family)?.[at])).toBe(true);
        }
      },
    ),
    { ...runs(60), endOnFailure: true },
  );
});

test('the nodes are listed by name', () => {
  expect(nodesOf(files)).toEqual(['node-a', 'node-b', 'node-c']);
});

test.each([
  ['a node that the bundle does not have', 'node-x', files, 'BUNDLE_UNKNOWN_NODE'],
  [
    'a node whose profile is missing',
    'node-a',
    new Map([...files].filter(([path]) => !path.endsWith('profile.yaml'))),
    'BUNDLE_INVALID',
  ],
  [
    'a bundle of a later format',
    'node-a',
    new Map(files).set('cluster.yaml', cluster[1].replace('format: 1', 'format: 2')),
    'BUNDLE_INVALID',
  ],
  ['an unknown key', 'node-a', new Map(files).set(...profile('default', 'extra: 1\n')), 'BUNDLE_INVALID'],
  [
    'a sysctl with a variable that there is not',
    'node-a',
    new Map(files).set('profiles/default/base/sysctl.conf', 'net.netfilter.nf_conntrack_max = ${node.max}\n'),
    'BUNDLE_INVALID',
  ],
  [
    'a rule file that is cut short',
    'node-a',
    new Map(files).set('profiles/default/services/shop/web.iptables', '*nat\n'),
    'BUNDLE_INVALID',
  ],
])('%s is refused', (_title, name, of, code) => {
  expect(resolveNode(of, name)).toMatchObject([{ code, level: 'error' }]);
});
