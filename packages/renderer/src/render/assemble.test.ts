import { readPath } from '@sluice/bundle';
import { expect, test } from 'vitest';
import { assemble } from './assemble.ts';
import { chainNames, hash16 } from './model/chain-names.ts';
import { configWith, endpoint, inFamily, node, portWith, profileWith, serviceOf } from './compile/sample.fixture.ts';
import { Memo } from './model/memo.ts';
import type { Model, Node, Service } from './model/model.ts';

const cart = serviceOf([portWith({ endpoints: [endpoint('10.244.1.5:80')] })]);
const three = [profileWith({ name: 'edge' }), profileWith({ name: 'ipv4-only', families: ['ipv4'] }), profileWith()];
const pathsOf = (nodes: readonly Node[], services: readonly Service[] = [cart]): string[] => [
  ...assemble({ nodes, services }, configWith({ profiles: three }), false).files.keys(),
];

test('a bundle has these files, in byte order, each known to the format', () => {
  const paths = pathsOf([node('node-b'), node('node-a')]);
  expect(paths).toEqual([
    '.gitattributes',
    '.gitignore',
    'cluster.yaml',
    'nodes/node-a/node.yaml',
    'nodes/node-b/node.yaml',
    'profiles/default/base/first.ip6tables',
    'profiles/default/base/first.iptables',
    'profiles/default/base/last.ip6tables',
    'profiles/default/base/last.iptables',
    'profiles/default/base/sysctl.conf',
    'profiles/default/profile.yaml',
    'profiles/default/services/shop/cart.iptables',
  ]);
  expect(paths.filter((path) => readPath(path) === undefined)).toEqual([]);
});

const profilesIn = (paths: readonly string[]): string[] => [
  ...new Set(paths.flatMap((path) => /^profiles\/([^/]+)/.exec(path)?.[1] ?? [])),
];

test.each([
  ['those that nodes use', [node('node-a'), node('node-b', { profile: 'edge' })], ['default', 'edge']],
  ['all where there is no node', [], ['default', 'edge', 'ipv4-only']],
])('profiles are written: %s', (_title, nodes, expected) => {
  expect(profilesIn(pathsOf(nodes))).toEqual(expected);
});

test('a profile has files of its own families only', () => {
  const both = serviceOf([
    { ...portWith({}), families: { ipv4: inFamily(), ipv6: inFamily({ clusterIP: 'fd00::1' }) } },
  ]);
  const paths = pathsOf([node('node-a', { profile: 'ipv4-only' }), node('node-b')], [both]);
  expect(paths.filter((path) => path.endsWith('.ip6tables'))).toEqual([
    'profiles/default/base/first.ip6tables',
    'profiles/default/base/last.ip6tables',
    'profiles/default/services/shop/cart.ip6tables',
  ]);
});

test('each profile has the rules of its own options', () => {
  const { iptables } = profileWith();
  const profiles = [
    profileWith({ name: 'bridged', detectLocalMode: 'BridgeInterface' }),
    profileWith({ name: 'masquerading', iptables: { ...iptables, masqueradeAll: true } }),
    profileWith(),
  ];
  const { files } = assemble({ nodes: [], services: [cart] }, configWith({ profiles }), false);
  const masqueraded = (profile: string): string | undefined =>
    /--dport 80 (.*)-j KUBE-MARK-MASQ/.exec(files.get(`profiles/${profile}/services/shop/cart.iptables`) ?? '')?.[1];
  expect(['bridged', 'masquerading', 'default'].map(masqueraded)).toEqual([
    '! -i ${profile.bridgeInterface} ',
    '',
    '! -s ${profile.clusterCIDR} ',
  ]);
});

test('the order of nodes and Services changes nothing', () => {
  const services = ['a', 'b', 'c'].map((name): Service => ({ ...cart, name }));
  const nodes = ['node-1', 'node-2', 'node-3'].map((name) => node(name));
  const once = assemble({ nodes, services }, configWith(), false);
  const again = assemble({ nodes: nodes.toReversed(), services: services.toReversed() }, configWith(), false);
  expect([...again.files]).toEqual([...once.files]);
});

test('reports two ports of a bundle with the same chain hash', () => {
  const services = Array.from({ length: 40 }, (_, n): Service => {
    const name = `svc-${n}`;
    return { namespace: 'shop', name, type: 'ClusterIP', ports: [portWith({}, { key: `shop/${name}:http` })] };
  });
  const model: Model = { nodes: [], services };
  const names = chainNames((text) => hash16(text).slice(0, 1));
  const codes = assemble(model, configWith(), false, new Memo(names)).problems.map((problem) => problem.code);
  expect(codes.length).toBeGreaterThan(0);
  expect(new Set(codes)).toEqual(new Set(['CHAIN_COLLISION']));
  expect(assemble(model, configWith(), false).problems).toEqual([]);
});

test('notes a profile that cannot distinguish traffic of pods', () => {
  const model = { nodes: [], services: [serviceOf([portWith({})])] };
  const { problems } = assemble(model, configWith({ profiles: [profileWith({ clusterCIDR: {} })] }), true);
  expect(problems.map(({ code, level }) => `${level} ${code}`)).toEqual(['note DETECTOR_MISSING']);
});
