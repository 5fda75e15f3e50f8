import { expect, test } from 'vitest';
import { policyCodesOfSchema } from '@sluice/renderer/load/schema/sluice.ts';
import { bundleOf, type Short } from './bundle.fixture.ts';
import { policyCodes, policyRules } from './catalogue.ts';
import { covers } from './changes.ts';
import { checkPolicy, failing, type PolicyResult } from './policy.ts';
import type { PolicySettings } from './settings.ts';

const both = ['10.244.1.5 node-a z1', '10.244.2.5 node-b z2'];
const web: Short = { name: 'web', clusterIPs: ['10.96.0.30'], endpoints: both };
/** A load balancer with an address in each family. */
const balanced = (ranges: readonly string[]): Short => ({
  ...web,
  type: 'LoadBalancer',
  clusterIPs: ['10.96.0.30', 'fd00:10:96::30'],
  ingress: ['203.0.113.9', '2001:db8:100::9'],
  spec: [`loadBalancerSourceRanges: ${JSON.stringify(ranges)}`],
  endpoints: [...both, 'fd00:10:244:1::5 node-a z1', 'fd00:10:244:2::5 node-b z2'],
});

function check(
  updated: readonly Short[],
  old: readonly Short[] | undefined,
  settings: PolicySettings = {},
  today = '2026-11-21',
): PolicyResult {
  const base = old === undefined ? {} : { base: bundleOf(old) };
  const result = checkPolicy({ files: bundleOf(updated), ...base, settings, today });
  return result;
}

/** `CODE subject`, without what every bundle of the fixture has. */
const brief = ({ findings }: PolicyResult): readonly string[] =>
  findings
    .filter(({ code }) => !['ROUTE_LOCALNET', 'EXTERNAL_IP_DEPRECATED'].includes(code))
    .map(({ code, subject, waived }) => `${waived ? 'waived ' : ''}${code} ${subject}`);

test('the schema of sluice.yaml and the catalogue have the same rules in the same order', () => {
  expect(policyCodesOfSchema).toEqual(policyCodes);
});

test.each([
  ['a Service on two nodes and zones is fine', [web], []],
  [
    'an external IP outside of policy.externalIPs',
    [{ ...web, spec: ['externalIPs: [203.0.113.50]'] }],
    ['EXTERNAL_IP shop/web'],
  ],
  [
    'an external IP that is a node',
    [{ ...web, spec: ['externalIPs: [192.0.2.11]'] }],
    ['ADDRESS_TAKEN shop/web', 'EXTERNAL_IP shop/web'],
  ],
  [
    'an external IP that is the address of another Service',
    [
      web,
      {
        ...web,
        name: 'thief',
        clusterIPs: ['10.96.0.31'],
        spec: ['externalIPs: [10.96.0.30]', 'ports: [{ name: http, port: 53, targetPort: 8080 }]'],
      },
    ],
    ['ADDRESS_TAKEN shop/thief', 'EXTERNAL_IP shop/thief'],
  ],
  ['the address of the API', [{ ...web, clusterIPs: ['10.96.0.1'] }], ['ADDRESS_TAKEN shop/web']],
  [
    'the first address of a network where the API has another one',
    [
      { ...web, clusterIPs: ['10.96.0.1'] },
      { name: 'kubernetes', namespace: 'default', clusterIPs: ['10.96.0.9'] },
    ],
    [],
  ],
  [
    'a gateway of pods',
    [{ ...web, spec: ['externalIPs: [10.244.2.1]'] }],
    ['ADDRESS_TAKEN shop/web', 'EXTERNAL_IP shop/web'],
  ],
  ['source ranges in both families', [balanced(['198.51.100.0/24', '2001:db8:9::/48'])], []],
  ['source ranges in one family', [balanced(['198.51.100.0/24'])], ['RANGES_ONE_FAMILY shop/web']],
  ['an endpoint outside of all pods', [{ ...web, endpoints: [...both, '198.51.100.9'] }], ['ENDPOINT_RANGE shop/web']],
  [
    'all endpoints on one node, which is one zone',
    [{ ...web, endpoints: ['10.244.1.5 node-a z1', '10.244.1.6 node-a z1'] }],
    ['SINGLE_NODE shop/web', 'SINGLE_ZONE shop/web'],
  ],
] as const)('of a bundle alone: %s', (_title, services, expected) => {
  expect(brief(check(services as readonly Short[], undefined))).toEqual(expected);
});

test.each([
  ['nothing', [web], [web], []],
  ['a node port opens', [web], [{ ...web, type: 'NodePort' }], ['NODE_PORT_OPENED shop/web']],
  [
    'the last endpoint goes',
    [web],
    [{ ...web, endpoints: [] }],
    ['LAST_ENDPOINT shop/web', 'ENDPOINTS_CHANGED bundle'],
  ],
  ['a Service goes', [web, { ...web, name: 'b', clusterIPs: ['10.96.0.31'] }], [web], ['SERVICE_REMOVED shop/b']],
  ['affinity comes', [web], [{ ...web, spec: ['sessionAffinity: ClientIP'] }], ['AFFINITY_CHANGED shop/web']],
  [
    'a policy becomes Local',
    [web],
    [{ ...web, spec: ['internalTrafficPolicy: Local'] }],
    ['TRAFFIC_POLICY_CHANGED shop/web'],
  ],
  [
    'source ranges get narrower',
    [balanced(['198.51.100.0/24', '2001:db8:9::/48'])],
    [balanced(['198.51.100.0/25', '2001:db8:9::/48'])],
    [],
  ],
  [
    'a source range gets wider',
    [balanced(['198.51.100.0/24', '2001:db8:9::/48'])],
    [balanced(['198.51.0.0/16', '2001:db8:9::/48'])],
    ['RANGES_WIDENED shop/web'],
  ],
  [
    'source ranges are dropped in one family',
    [balanced(['198.51.100.0/24', '2001:db8:9::/48'])],
    [balanced(['198.51.100.0/24'])],
    ['RANGES_ONE_FAMILY shop/web', 'RANGES_WIDENED shop/web'],
  ],
  [
    'every endpoint is another one',
    [web],
    [{ ...web, endpoints: ['10.244.1.8 node-a z1', '10.244.2.8 node-b z2'] }],
    ['ENDPOINTS_CHANGED bundle'],
  ],
  [
    'ten Services more',
    [web],
    Array.from({ length: 10 }, (_, at) => ({ ...web, name: `w${at}`, clusterIPs: [`10.96.1.${at + 1}`] })).concat([
      web as never,
    ]),
    ['RULE_GROWTH profile default'],
  ],
] as const)('of a change: %s', (_title, old, updated, expected) => {
  expect(brief(check(updated as readonly Short[], old as readonly Short[]))).toEqual(expected);
});

test('settings permit their networks and change levels', () => {
  const thief: Short = { ...web, spec: ['externalIPs: [203.0.113.50]'] };
  expect(brief(check([thief], undefined, { externalIPs: ['203.0.113.0/24'] }))).toEqual([]);
  expect(brief(check([thief], undefined, { levels: { EXTERNAL_IP: 'off' } }))).toEqual([]);
  const noted = check([thief], undefined, { levels: { EXTERNAL_IP: 'warning' } });
  expect(failing(noted, false)).toEqual([]);
  expect(failing(noted, true)).toHaveLength(1);
});

test('counts changed nodes by the rules that each one gets', () => {
  // With policy Local a node alone learns of its own endpoint only when guards part them.
  const updated = { ...web, endpoints: [...both, '10.244.1.6 node-a z1'] };
  expect(brief(check([updated], [web], { nodesChangedPercent: 50 }))).toEqual(['NODES_CHANGED bundle']);
  const local = (endpoints: readonly string[]): Short => ({
    ...web,
    spec: ['internalTrafficPolicy: Local'],
    endpoints,
  });
  expect(brief(check([local([...both, '10.244.1.6 node-a z1'])], [local(both)], { nodesChangedPercent: 50 }))).toEqual(
    [],
  );
});

test.each([
  ['holds through its last day', '2026-11-21', ['waived EXTERNAL_IP shop/web'], 0],
  ['has expired on the next', '2026-11-20', ['EXTERNAL_IP shop/web', 'WAIVER_EXPIRED shop/web'], 2],
] as const)('a waiver %s', (_title, expires, expected, failed) => {
  const waivers = [{ rule: 'EXTERNAL_IP', subject: 'shop/web', reason: 'moved in spring', expires }] as const;
  const result = check([{ ...web, spec: ['externalIPs: [203.0.113.50]'] }], undefined, { waivers });
  expect(brief(result)).toEqual(expected);
  expect(failing(result, false)).toHaveLength(failed);
});

test('reports a waiver for another Service as unused', () => {
  const waivers = [{ rule: 'EXTERNAL_IP', subject: 'shop/other', reason: 'x', expires: '2027-01-01' }] as const;
  const result = check([{ ...web, spec: ['externalIPs: [203.0.113.50]'] }], undefined, { waivers });
  expect(brief(result)).toEqual(['EXTERNAL_IP shop/web', 'WAIVER_UNUSED shop/other']);
});

test('lists losses by node and zone, the largest first', () => {
  const alone = (name: string, at: number, node: string): Short => ({
    ...web,
    name,
    clusterIPs: [`10.96.2.${at}`],
    endpoints: [`10.244.${node === 'node-a' ? 1 : 2}.${at} ${node}`],
  });
  const { losses } = check([alone('s1', 1, 'node-b'), alone('s2', 2, 'node-a'), alone('s3', 3, 'node-b')], undefined);
  expect(losses).toEqual([
    { kind: 'node', name: 'node-b', ports: ['shop/s1:http 80/TCP', 'shop/s3:http 80/TCP'] },
    { kind: 'node', name: 'node-a', ports: ['shop/s2:http 80/TCP'] },
  ]);
});

test('every rule has a title as a clause and a reason as a sentence', () => {
  for (const { title, reason } of Object.values(policyRules)) {
    expect(title).toMatch(/^(?:[a-z]|route_localnet|internalTrafficPolicy).*[^.]$/);
    expect(reason).toMatch(/^[A-Z].*[^.]$/);
  }
});

test.each([
  ['10.0.0.0/8', '10.1.0.0/16', true],
  ['10.1.0.0/16', '10.0.0.0/8', false],
  ['10.0.0.0/8', '11.0.0.0/16', false],
  ['10.0.0.1', '10.0.0.1/32', true],
  ['0.0.0.0/0', '2001:db8::/32', false],
  ['2001:db8::/32', '2001:db8:1::1', true],
])('%s covers %s: %s', (outer, inner, expected) => {
  expect(covers(outer, inner)).toBe(expected);
});
