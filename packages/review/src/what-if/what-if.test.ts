import { orProblems } from '../bundle/node.ts';
import type { BundleFiles } from '@sluice/bundle';
import { expect, test } from 'vitest';
import { printWhatIf } from '../emit/what-if.ts';
import type { PolicySettings } from '../policy/settings.ts';
import type { FailedPlace } from '../failures/failure.ts';
import { type SampleEndpoint, type SampleNode, sampleBundle, type SampleService } from './cluster.fixture.ts';
import { breaks, type FailureRow, type WhatIf, whatIf } from './what-if.ts';

const nodes: readonly SampleNode[] = [
  { number: 1, zone: 'a' },
  { number: 2, zone: 'a' },
  { number: 3, zone: 'b' },
];
const on = (node: number, last: number, rest: Partial<SampleEndpoint> = {}): SampleEndpoint => ({
  address: `10.244.${node}.${last}`,
  node,
  ...rest,
});
const service = (name: string, last: number, endpoints: readonly SampleEndpoint[], rest = {}): SampleService => ({
  name,
  clusterIP: `10.96.0.${last}`,
  nodePort: 30_000 + last,
  endpoints,
  ...rest,
});

const alone = service('alone', 10, [on(1, 5)]);
const spread = service('spread', 11, [on(1, 6), on(2, 6), on(3, 6)]);
const local = service('local', 12, [on(1, 7), on(1, 8), on(3, 7)], { external: 'Local', internal: 'Local' });
const hinted = service('hinted', 13, [on(1, 9, { hintZones: ['a'] }), on(3, 9, { hintZones: ['b'] })]);
const elsewhere = service('elsewhere', 14, [{ address: '198.51.100.9' }]);
const bundle = sampleBundle(nodes, [alone, spread, local, hinted, elsewhere]);

interface Asked {
  readonly without?: readonly FailedPlace[];
  readonly endpoints?: boolean;
  readonly sharePercent?: number;
  readonly settings?: PolicySettings;
}

function judge({ without = [], endpoints = false, sharePercent = 100, settings = {} }: Asked = {}): WhatIf {
  const judged = whatIf(bundle, { without, endpoints, sharePercent, settings, today: '2026-11-21' });
  return judged;
}

const rowOf = (judged: WhatIf, kind: FailedPlace['kind'], name: string): FailureRow =>
  judged.rows.find(({ places }) => places[0]?.kind === kind && places[0].name === name)!;

test('judges every zone and node, the worst first', () => {
  const { rows, ...extent } = judge();
  expect(extent).toEqual({
    sharePercent: 100,
    nodes: 3,
    zones: 2,
    services: 5,
    endpoints: 10,
    unplaced: { node: 1, zone: 1 },
  });
  expect(rows.map(({ places: [place], gone, dark, partly }) => [place?.name, gone, dark, partly])).toEqual([
    ['a', 1, 1, 0],
    ['node-1', 1, 1, 0],
    ['node-3', 0, 0, 0],
    ['b', 0, 0, 0],
    ['node-2', 0, 0, 0],
  ]);
});

test('a lost endpoint takes a Service from its own node alone where the policy is Local', () => {
  const row = rowOf(judge({ endpoints: true }), 'endpoint', '10.244.3.7');
  expect(row).toMatchObject({ endpoints: 1, services: 1, gone: 0, partly: 1, dark: 0 });
  expect(row.effects[0]?.without).toEqual([
    { policy: 'internalTrafficPolicy Local', nodes: ['node-3'] },
    { policy: 'externalTrafficPolicy Local', nodes: ['node-3'] },
  ]);
  expect(rowOf(judge({ endpoints: true }), 'endpoint', '10.244.1.7').effects).toEqual([]);
});

test('names the zone whose traffic goes elsewhere when its hinted endpoint is lost', () => {
  const { effects } = rowOf(judge(), 'node', 'node-1');
  expect(effects.map(({ port, leaving }) => [port.key, leaving])).toContainEqual(['shop/hinted:http 80/TCP', ['a']]);
});

test('places that fail together', () => {
  const both = judge({
    without: [
      { kind: 'node', name: 'node-1' },
      { kind: 'node', name: 'node-3' },
    ],
  });
  const [row] = both.rows;
  expect(row).toMatchObject({ nodes: 2, gone: 3, dark: 3 });
  expect(row?.effects.filter(({ isGone }) => isGone).map(({ port }) => port.service)).toEqual([
    'shop/alone',
    'shop/hinted',
    'shop/local',
  ]);
});

test.each([
  [60, 0],
  [49, 1],
  [33, 1],
  [20, 1],
])('a share that a failure raises above %i %% counts, whatever it was before', (sharePercent, overloaded) => {
  // Of three endpoints two are left: 50 % instead of 33.3 %.
  const { effects } = rowOf(judge({ sharePercent }), 'node', 'node-2');
  expect(effects.filter(({ port }) => port.service === 'shop/spread')).toHaveLength(overloaded);
});

test('an endpoint that gets too much counts, though another one had as much before', () => {
  // Nodes 1 and 2 use the first endpoint by their zone: it has two thirds. Without it the other one has all.
  const { effects } = rowOf(judge({ endpoints: true, sharePercent: 60 }), 'endpoint', '10.244.1.9');
  expect(effects).toMatchObject([{ share: { endpoint: '10.244.3.9:8080', after: 1 } }]);
  expect(effects[0]!.share.before).toBeCloseTo(1 / 3);
  // Without the second one the first has all, too: it had two thirds, more than it may have.
  expect(rowOf(judge({ endpoints: true, sharePercent: 60 }), 'endpoint', '10.244.3.9').overloaded).toBe(1);
});

/** The bundle with node 3 in a profile of its own, in which a Service has a declaration of its own. */
function withEdge(edit: (text: string) => string): BundleFiles {
  const files = new Map(bundle);
  for (const [path, text] of bundle) {
    if (path.startsWith('profiles/default/')) files.set(path.replace('default', 'edge'), text);
    if (path === 'nodes/node-3/node.yaml') files.set(path, text.replace('profile: default', 'profile: edge'));
  }
  const own = 'profiles/edge/services/shop/alone.iptables';
  files.set(own, edit(files.get(own)!));
  return files;
}

const alsoOnNode3 = (text: string): string =>
  text.replace(/^(# endpoint http) .*$/m, (line) => `${line}\n# endpoint http 10.244.3.5:8080 node-3`);

test('a port that is gone for one profile alone is taken from the nodes of that profile', () => {
  const files = withEdge(alsoOnNode3);
  const asked = { without: [], endpoints: false, sharePercent: 100, settings: {}, today: '2026-11-21' } as const;
  const judged = whatIf(files, asked);
  const of = (name: string): FailureRow['effects'] =>
    rowOf(judged, 'node', name).effects.filter(({ port }) => port.service === 'shop/alone');
  expect(rowOf(judged, 'node', 'node-1')).toMatchObject({ gone: 0, partly: 1 });
  expect(of('node-1')).toMatchObject([
    { isGone: false, without: [{ policy: 'profile default', nodes: ['node-2'] }], dark: [] },
  ]);
  // The only node of the profile: no node is left that would use its declaration.
  expect(of('node-3')).toEqual([]);
});

test('names the rules of the policy that hold now and are broken then, unless they are waived', () => {
  const rules = (settings: PolicySettings = {}): unknown =>
    rowOf(judge({ settings }), 'node', 'node-1').rules.map(({ code, level, subjects }) => [code, level, ...subjects]);
  expect(rules()).toEqual([
    ['LAST_ENDPOINT', 'error', 'shop/alone'],
    ['SINGLE_NODE', 'note', 'shop/hinted', 'shop/local'],
    ['SINGLE_ZONE', 'note', 'shop/hinted', 'shop/local'],
  ]);
  const waiver = {
    rule: 'LAST_ENDPOINT',
    subject: 'shop/alone',
    reason: 'a batch job',
    expires: '2026-12-31',
  } as const;
  expect(rules({ waivers: [waiver], levels: { SINGLE_NODE: 'off', SINGLE_ZONE: 'warning' } })).toEqual([
    ['SINGLE_ZONE', 'warning', 'shop/hinted', 'shop/local'],
  ]);
});

test('refuses a place that the bundle does not have', () => {
  const asked = {
    without: [{ kind: 'node', name: 'node-9' }],
    endpoints: false,
    sharePercent: 100,
    settings: {},
  } as const;
  expect(orProblems(() => whatIf(bundle, { ...asked, today: '2026-11-21' }))).toMatchObject([
    { code: 'INPUT_EMPTY', hint: 'It has node-1, node-2, node-3' },
  ]);
});

test('prints a table for several failures, and a list for one', () => {
  const table = printWhatIf(judge(), 'rendered', 'text');
  expect(table).toMatch(/^FAILURE +NODES .*\n(?:zone a|node node-1) /);
  expect(table).toContain(
    '5 failures of 3 nodes, 2 zones, 5 Services with 10 endpoints: 2 take something from clients.',
  );
  expect(table).toContain('unknown: the bundle names no node of 1 endpoint;');
  const list = printWhatIf(judge({ without: [{ kind: 'zone', name: 'a' }] }), 'rendered', 'text');
  expect(list).toMatch(/^Without zone a: lost 2 nodes and 6 endpoints, in 4 of 5 Services\n/);
  expect(list).toContain('    shop/alone:http 80/TCP (ipv4): 1 endpoint lost\n');
  expect(list).toContain('    node port 30010 of shop/alone:http 80/TCP (ipv4)\n');
  expect(JSON.parse(printWhatIf(judge(), 'rendered', 'json'))).toMatchObject({
    kind: 'WhatIf',
    rows: [{ gone: 1, effects: [{ gone: true, share: null }] }, {}, {}, {}, {}],
  });
  expect(judge().rows.filter(breaks)).toHaveLength(2);
});

test.each([
  [['localhost'], 0],
  [['primary', 'localhost'], 2],
])('node ports on %j alone are no frontend for clients outside where no other address is open', (open, dark) => {
  const settings = { kubeProxyVersion: '1.38', nodePortAddresses: open };
  const files = sampleBundle(nodes, [alone, local], 'nftables', settings);
  const without = [1, 3].map((number) => ({ kind: 'node', name: `node-${number}` }) as const);
  const judged = whatIf(files, { without, endpoints: false, sharePercent: 100, settings: {}, today: '2026-11-21' });
  expect(judged).toMatchObject({ rows: [{ gone: 2, dark }] });
  // Processes of a node ask there, too: with policy Local they need an endpoint of their own.
  const lost = [{ kind: 'endpoint', name: '10.244.3.7' }] as const;
  const one = whatIf(files, { without: lost, endpoints: false, sharePercent: 100, settings: {}, today: '2026-11-21' });
  expect(JSON.stringify(one)).toContain('{"policy":"externalTrafficPolicy Local","nodes":["node-3"]}');
});
