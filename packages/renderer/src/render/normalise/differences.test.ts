import { expect, test } from 'vitest';
import { type Changes, config, endpoint, node, normalised, profile, service, slice } from '../builders.fixture.ts';
import type { Profile } from '../model/config.ts';
import type { JsonObject } from '../model/kube.ts';

const ipvs: Partial<Profile> = {
  mode: 'ipvs',
  ipvs: { scheduler: 'rr', excludeCIDRs: [], strictARP: false, timeouts: { tcp: 0, tcpFin: 0, udp: 0 } },
};
const nodePort: JsonObject = { name: 'http', port: 80, targetPort: 8080, nodePort: 30_080 };
const outside: Changes = { type: 'NodePort', ports: [nodePort] };
const localhost = 'DIFFERS_LOCALHOST';
const here = endpoint('10.244.1.5', { nodeName: 'node-1' });
const there = endpoint('10.244.2.5', { nodeName: 'node-2' });
const nodes = [node('node-1'), node('node-2')];

/** What is said about Service web, by code. */
function said(
  spec: Changes,
  endpoints: readonly JsonObject[],
  profiles: readonly Profile[] = [profile('big', ipvs)],
): string[] {
  const { problems } = normalised([service('web', spec), slice('web', { endpoints }), ...nodes], {
    config: config({ profiles }),
  });
  return problems
    .filter(({ level, object }) => level === 'differs' && object === 'Service shop/web')
    .map(({ code }) => code);
}

test.each<[string, Changes, JsonObject[], string[]]>([
  ['a ClusterIP has no difference', {}, [here], []],
  ['without endpoints the kernel answers', {}, [], ['DIFFERS_NO_ENDPOINT']],
  ['a node port does not answer on localhost', outside, [here], [localhost]],
  [
    'a node without a local endpoint sends traffic on',
    { ...outside, externalTrafficPolicy: 'Local' },
    [here],
    ['DIFFERS_LOCAL_FALLBACK', localhost],
  ],
  [
    'where every node has one, pods still reach only theirs',
    { ...outside, externalTrafficPolicy: 'Local' },
    [here, there],
    ['DIFFERS_LOCAL_INSIDE', localhost],
  ],
  [
    'internal policy Local has nothing to fall back on',
    { internalTrafficPolicy: 'Local' },
    [here],
    ['DIFFERS_NO_ENDPOINT'],
  ],
  [
    'internal policy Local has no difference if every node has an endpoint',
    { internalTrafficPolicy: 'Local' },
    [here, there],
    [],
  ],
  [
    'affinity is kept for each address',
    { ...outside, sessionAffinity: 'ClientIP' },
    [here, there],
    ['DIFFERS_AFFINITY', localhost],
  ],
  ['affinity at one address has no difference', { sessionAffinity: 'ClientIP' }, [here, there], []],
  ['affinity with one endpoint has no difference', { ...outside, sessionAffinity: 'ClientIP' }, [here], [localhost]],
])('%s', (_title, spec, endpoints, expected) => {
  expect(said(spec, endpoints).toSorted()).toEqual(expected.toSorted());
});

const nftables: Partial<Profile> = { mode: 'nftables', nftables: { masqueradeAll: false } };

test.each<[string, Changes, JsonObject[], string[]]>([
  ['a ClusterIP has no difference', {}, [], []],
  ['policy Local has none either', { ...outside, externalTrafficPolicy: 'Local' }, [here], [localhost]],
  ['external addresses without endpoints refuse more', { externalIPs: ['198.51.100.1'] }, [], ['DIFFERS_NO_ENDPOINT']],
  ['external addresses with endpoints have no difference', { externalIPs: ['198.51.100.1'] }, [here], []],
  [
    'no rule accepts health checks',
    { ...outside, type: 'LoadBalancer', externalTrafficPolicy: 'Local', healthCheckNodePort: 32_000 },
    [here],
    [localhost, 'DIFFERS_HEALTH_CHECK'],
  ],
  [
    'affinity is kept for each address',
    { ...outside, sessionAffinity: 'ClientIP' },
    [here, there],
    [localhost, 'DIFFERS_AFFINITY'],
  ],
])('mode nftables: %s', (_title, spec, endpoints, expected) => {
  expect(said(spec, endpoints, [profile('big', nftables)]).toSorted()).toEqual(expected.toSorted());
});

test('names the mode of each difference', () => {
  const big = profile('big', { ...ipvs, nodeSelector: { matchLabels: { pool: 'big' } } });
  const input = [service('web', outside), slice('web'), node('node-1', {}, { pool: 'big' }), node('node-2', {}, {})];
  const { problems } = normalised(input, { config: config({ profiles: [big, profile('new', nftables)] }) });
  expect(problems.filter(({ code }) => code === localhost).map(({ message }) => message)).toEqual([
    'Mode ipvs differs from mode iptables (profile big): node ports are not open on 127.0.0.1',
    'Mode nftables differs from mode iptables (profile new): node ports are not open on 127.0.0.1',
  ]);
});

test.each([
  ['by default', {}, ['DIFFERS_CLUSTER_IPS', 'DIFFERS_INVALID', 'DIFFERS_NODE_PORTS']],
  ['with its own list', { nodePortAddresses: ['all'] }, ['DIFFERS_CLUSTER_IPS', 'DIFFERS_INVALID']],
])('mode nftables reports differences of all traffic %s', (_title, rest, expected) => {
  const profiles = [profile('big', { ...nftables, ...rest })];
  const { problems } = normalised([service('web'), slice('web'), ...nodes], { config: config({ profiles }) });
  const codes = problems.filter(({ object }) => object === 'Profile big').map(({ code }) => code);
  expect(codes.toSorted()).toEqual(expected);
});

test.each(['ipvs', 'nftables'] as const)(
  'mode %s: reports node ports that no rule refuses, if there are any',
  (mode) => {
    const profiles = [profile('big', mode === 'ipvs' ? ipvs : nftables)];
    const codes = [outside, {}].map((spec) =>
      normalised([service('web', spec), slice('web'), ...nodes], { config: config({ profiles }) }).problems.map(
        ({ code }) => code,
      ),
    );
    expect(codes.map((some) => some.includes('DIFFERS_CLOSED_NODE_PORTS'))).toEqual([true, false]);
  },
);

test('mode ipvs: topology hints that leave out an endpoint of the node are a difference', () => {
  const hinted = { ...there, hints: { forNodes: [{ name: 'node-1' }] } };
  const own = { ...here, hints: { forNodes: [{ name: 'node-2' }] } };
  const spec = { ...outside, externalTrafficPolicy: 'Local' };
  expect(said(spec, [own, hinted])).toContain('DIFFERS_LOCAL_INSIDE');
});

test('reports nothing for mode iptables', () => {
  expect(said({ ...outside, externalTrafficPolicy: 'Local' }, [], [profile('small')])).toEqual([]);
});

test('reports only nodes of mode ipvs, and names their profiles', () => {
  const big = profile('big', { ...ipvs, nodeSelector: { matchLabels: { pool: 'big' } } });
  const input = (pool: string) => [
    service('web', { ...outside, externalTrafficPolicy: 'Local' }),
    slice('web', { endpoints: [here] }),
    node(pool === 'node-1' ? 'node-1' : 'node-2', {}, { pool: 'big' }),
    node(pool === 'node-1' ? 'node-2' : 'node-1', {}, {}),
  ];
  const found = (pool: string): string[] => {
    const { problems } = normalised(input(pool), { config: config({ profiles: [big, profile('small')] }) });
    return problems.filter(({ code }) => code === 'DIFFERS_LOCAL_FALLBACK').map(({ message }) => message);
  };
  expect(found('node-1')).toEqual([]);
  expect(found('node-2')).toEqual([expect.stringContaining('(profile big)')]);
});

test.each([
  [false, ['DIFFERS_INVALID', 'DIFFERS_OTHER_PORTS']],
  [true, ['DIFFERS_OTHER_PORTS']],
])('reports differences of all traffic once per profile, with tcpBeLiberal %s', (tcpBeLiberal, expected) => {
  const { conntrack } = profile('big');
  const profiles = [profile('big', { ...ipvs, conntrack: { ...conntrack, tcpBeLiberal } })];
  const { problems } = normalised([service('web'), slice('web'), ...nodes], { config: config({ profiles }) });
  expect(problems.filter(({ object }) => object === 'Profile big').map(({ code }) => code)).toEqual(expected);
});
