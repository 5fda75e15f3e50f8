import { expect, test } from 'vitest';
import { bundleOf, type Short } from '../policy/bundle.fixture.ts';
import { reportOn } from './report.ts';
import { compareSeverity, severities } from './severity.ts';

const both = ['10.244.1.5 node-a z1', '10.244.2.5 node-b z2'];
const web: Short = { name: 'web', clusterIPs: ['10.96.0.30'], endpoints: both };
const open = (policy: string): Short => ({
  ...web,
  type: 'NodePort',
  endpoints: both.slice(0, 1),
  spec: [`externalTrafficPolicy: ${policy}`],
});
const balanced = (ranges: readonly string[], address = true): Short => ({
  ...web,
  type: 'LoadBalancer',
  ingress: address ? ['203.0.113.9'] : [],
  spec: [`loadBalancerSourceRanges: ${JSON.stringify(ranges)}`],
});

/** `severity: sentence: names`, worst first. */
function effects(
  old: readonly Short[],
  updated: readonly Short[],
  profiles: readonly [string, string] = ['', ''],
): readonly string[] {
  const report = reportOn({ old: bundleOf(old, profiles[0]), updated: bundleOf(updated, profiles[1]) });
  return report.effects.map(
    ({ severity, sentence, subjects }) => `${severity}: ${sentence}: ${subjects.map(({ name }) => name).join(', ')}`,
  );
}

test('a node that loses all its endpoints is named', () => {
  const services = [30, 31, 32].map((last) => ({ ...web, name: `s${last}`, clusterIPs: [`10.96.0.${last}`] }));
  const drained = services.map((one) => ({ ...one, endpoints: both.slice(1) }));
  expect(effects(services, drained)).toEqual([
    'moves: loses endpoints: shop/s30, shop/s31, shop/s32',
    'moves: has no endpoint any more: node-a',
  ]);
});

test('equal bundles have no effect', () => {
  expect(effects([web], [web])).toEqual([]);
});

test.each([
  [
    'the last endpoint leaves',
    [web],
    [{ ...web, endpoints: [] }],
    'last-endpoint: has no endpoint left: connections are rejected: shop/web',
  ],
  ['one of two endpoints leaves', [web], [{ ...web, endpoints: both.slice(1) }], 'moves: loses endpoints: shop/web'],
  [
    'an endpoint is replaced',
    [web],
    [{ ...web, endpoints: [both[0]!, '10.244.2.6 node-b z2'] }],
    'moves: exchanges endpoints: shop/web',
  ],
  ['a first endpoint comes', [{ ...web, endpoints: [] }], [web], 'adds: gets its first endpoints: shop/web'],
  ['a node port opens', [web], [{ ...web, type: 'NodePort' }], 'opens: opens a node port on 2 nodes: shop/web'],
  ['a node port closes', [{ ...web, type: 'NodePort' }], [web], 'closes: closes a node port: shop/web'],
  [
    'an external IP is added',
    [web],
    [{ ...web, spec: ['externalIPs: [203.0.113.5]'] }],
    'opens: answers on an external IP: shop/web',
  ],
  [
    'source ranges are removed',
    [balanced(['198.51.100.0/24'])],
    [balanced([])],
    'opens: is opened to all sources: shop/web',
  ],
  [
    'a source range is added',
    [balanced(['198.51.100.0/24'])],
    [balanced(['198.51.100.0/24', '192.0.2.0/24'])],
    'opens: accepts further sources: shop/web',
  ],
  ['source ranges are set', [balanced([])], [balanced(['198.51.100.0/24'])], 'closes: accepts fewer sources: shop/web'],
  ['a Service is added', [], [web], 'adds: is added: shop/web'],
  [
    'a Service is added that is open to the outside',
    [],
    [{ ...web, type: 'NodePort' }],
    'opens: opens a node port on 2 nodes: shop/web',
  ],
  ['a Service is removed', [web], [], 'closes: is removed: shop/web'],
  [
    'session affinity ends',
    [{ ...web, spec: ['sessionAffinity: ClientIP'] }],
    [web],
    'connections: changes its session affinity: clients may lose their endpoint: shop/web',
  ],
] satisfies readonly (readonly [string, readonly Short[], readonly Short[], string])[])(
  'when %s',
  (_title, old, updated, worst) => {
    expect(effects(old, updated)[0]).toBe(worst);
  },
);

test('when externalTrafficPolicy becomes Cluster, endpoints no longer see the client, and other nodes answer', () => {
  expect(effects([open('Local')], [open('Cluster')]).slice(0, 2)).toEqual([
    'opens: accepts connections from outside that it did not accept: shop/web',
    "source-address: shows its endpoints a node's address instead of the client's: shop/web",
  ]);
});

test('source ranges do not count where the load balancer loses its address', () => {
  const found = effects([balanced(['198.51.100.0/24'])], [{ ...web, type: 'ClusterIP' }]);
  expect(found.filter((line) => line.startsWith('opens'))).toEqual([]);
  expect(found).toContain('closes: loses a load-balancer address: shop/web');
});

test('a sysctl of a profile is named with its values, its file is not', () => {
  const found = effects(
    [web],
    [web],
    ['', '    sysctls: { net.netfilter.nf_conntrack_tcp_timeout_established: "600" }'],
  );
  expect(found).toEqual(['settings: changes a sysctl of its nodes: profile default']);
});

test('a change of mode breaks connections of a profile', () => {
  expect(effects([web], [web], ['', '    mode: nftables'])[0]).toBe(
    'connections: changes to mode nftables: established connections break: profile default',
  );
});

test('a sentence that holds for twenty Services is there once, with all of them', () => {
  const many = (last: number): readonly Short[] =>
    Array.from({ length: 20 }, (_, at) => ({
      name: `web-${at}`,
      clusterIPs: [`10.96.0.${at + 10}`],
      endpoints: [both[0]!, `10.244.2.${last} node-b z2`],
    }));
  const report = reportOn({ old: bundleOf(many(7)), updated: bundleOf(many(8)) });
  expect(report.effects.map(({ sentence, subjects }) => [sentence, subjects.length])).toEqual([
    ['exchanges endpoints', 20],
  ]);
  expect(report.services.every(({ severity }) => severity === 'moves')).toBe(true);
});

test('the worst severity is that of the Service', () => {
  const report = reportOn({ old: bundleOf([web]), updated: bundleOf([{ ...web, type: 'NodePort', endpoints: [] }]) });
  expect(report.services[0]?.severity).toBe('last-endpoint');
  expect(report.effects.map(({ severity }) => severity)).toEqual(
    report.effects.map(({ severity }) => severity).toSorted(compareSeverity),
  );
});

test('shares of endpoints are one for each port and family, before and after', () => {
  const dual: Short = {
    ...web,
    clusterIPs: ['10.96.0.30', 'fd00:10:96::30'],
    endpoints: [...both, 'fd00:10:244:1::5 node-a z1'],
  };
  const report = reportOn({
    old: bundleOf([dual]),
    updated: bundleOf([{ ...dual, endpoints: dual.endpoints!.slice(1) }]),
  });
  expect(report.services[0]?.endpoints.map(({ text, fate, before, after }) => [text, fate, before, after])).toEqual([
    ['10.244.1.5:8080', 'removed', 0.5, undefined],
    ['10.244.2.5:8080', 'same', 0.5, 1],
    ['[fd00:10:244:1::5]:8080', 'same', 1, 1],
  ]);
});

test('severities are in one order', () => {
  expect([...severities].toReversed().toSorted(compareSeverity)).toEqual(severities);
});
