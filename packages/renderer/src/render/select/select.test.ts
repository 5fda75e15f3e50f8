import { expect, test } from 'vitest';
import { down, endpoint, inFamily, leaving, portWith } from '../compile/sample.fixture.ts';
import type { Endpoint, PortOfFamily, ServicePort } from '../model/model.ts';
import { selectEndpoints } from './select.fixture.ts';

/** `1` on node-a in zone a, `2` on node-b in zone b, `3` on node-c in zone b, `4` on no known node. */
const homes = { 1: ['node-a', 'a'], 2: ['node-b', 'b'], 3: ['node-c', 'b'], 4: [] } as const;
type Number1To4 = keyof typeof homes;

function at(number: Number1To4, rest: Partial<Endpoint> = {}): Endpoint {
  const [nodeName, zone] = homes[number];
  const place = nodeName === undefined ? {} : { nodeName, zone };
  return endpoint(`10.244.0.${number}:80`, { ...place, ...rest });
}
const zones = (...hintZones: string[]): Partial<Endpoint> => ({ hintZones });
const nodes = (...hintNodes: string[]): Partial<Endpoint> => ({ hintNodes });
const both = (node: string, zone: string): Partial<Endpoint> => ({ hintNodes: [node], hintZones: [zone] });

/** `node-a/a`: a node and its zone; `node-x/`: one without a zone. */
type Where = `${string}/${string}`;
/** `cluster|local|all|hasAny`, endpoints by number. */
type Expected = `${string}|${string}|${string}|${'any' | 'none'}`;

function selected(port: ServicePort, here: PortOfFamily, where: Where): string {
  const [name, zone] = where.split('/') as [string, string];
  const result = selectEndpoints(port, here, zone === '' ? { name } : { name, zone });
  const numbers = (list: readonly Endpoint[]): string => list.map((one) => one.address.split('.')[3]).join('');
  return `${numbers(result.cluster)}|${numbers(result.local)}|${numbers(result.all)}|${result.hasAny ? 'any' : 'none'}`;
}

const internal = portWith({});
const internalLocal = portWith({}, { internalTrafficPolicy: 'Local' });
const nodePort = portWith({}, { nodePort: 30_080 });
const externalLocal = portWith({}, { nodePort: 30_080, externalTrafficPolicy: 'Local' });
const bothLocal = portWith({}, { nodePort: 30_080, externalTrafficPolicy: 'Local', internalTrafficPolicy: 'Local' });
const localWithoutWayIn = portWith({}, { externalTrafficPolicy: 'Local' });
const localInside = portWith({}, { nodePort: 30_080, internalTrafficPolicy: 'Local' });

test.each<[string, ServicePort, readonly Endpoint[], Where, Expected]>([
  // who may be used at all
  ['no endpoints', internal, [], 'node-a/a', '|||none'],
  ['all that are ready', internal, [at(1), at(2)], 'node-a/a', '12||12|any'],
  ['not those that are down', internal, [at(1), at(2, down)], 'node-a/a', '1||1|any'],
  ['nothing when all are down', internal, [at(1, down)], 'node-a/a', '|||none'],
  ['not those that leave while others are ready', internal, [at(1, leaving), at(2)], 'node-a/a', '2||2|any'],
  ['those that leave when no other is left', internal, [at(1, leaving), at(2, down)], 'node-a/a', '1||1|any'],
  [
    'not those that leave and no longer answer',
    internal,
    [at(1, { ready: false, serving: false, terminating: true })],
    'node-a/a',
    '|||none',
  ],
  [
    'not those that answer but are neither ready nor leaving',
    internal,
    [at(1, { ...down, serving: true })],
    'node-a/a',
    '|||none',
  ],
  ['a ready one that is called terminating', internal, [at(1, { terminating: true })], 'node-a/a', '1||1|any'],
  // zone hints
  ['the zone of the node', internal, [at(1, zones('a')), at(2, zones('b'))], 'node-a/a', '1||1|any'],
  ['all in a zone that no hint names', internal, [at(1, zones('a')), at(2, zones('b'))], 'node-x/c', '12||12|any'],
  ['all on a node without a zone', internal, [at(1, zones('a')), at(2, zones('b'))], 'node-x/', '12||12|any'],
  ['all when one endpoint has no hint', internal, [at(1, zones('a')), at(2)], 'node-a/a', '12||12|any'],
  [
    'an endpoint that serves two zones in each',
    internal,
    [at(1, zones('a', 'b')), at(2, zones('b'))],
    'node-b/b',
    '12||12|any',
  ],
  [
    'hints although one without a hint is down',
    internal,
    [at(1, zones('a')), at(2, zones('b')), at(3, down)],
    'node-a/a',
    '1||1|any',
  ],
  [
    'all that leave, whatever their hints',
    internal,
    [at(1, { ...leaving, ...zones('a') }), at(2, { ...leaving, ...zones('b') })],
    'node-a/a',
    '12||12|any',
  ],
  // node hints
  ['the node itself', internal, [at(1, nodes('node-a')), at(2, nodes('node-b'))], 'node-a/a', '1||1|any'],
  [
    'all on a node that no hint names',
    internal,
    [at(1, nodes('node-a')), at(2, nodes('node-b'))],
    'node-x/a',
    '12||12|any',
  ],
  ['all when one endpoint has no hint for a node', internal, [at(1, nodes('node-a')), at(2)], 'node-a/a', '12||12|any'],
  [
    'the node before its zone',
    internal,
    [at(2, both('node-b', 'b')), at(3, both('node-c', 'b'))],
    'node-b/b',
    '2||2|any',
  ],
  [
    'the zone where no hint names the node',
    internal,
    [at(1, both('node-a', 'a')), at(2, both('node-b', 'b'))],
    'node-x/b',
    '2||2|any',
  ],
  [
    'the zone when not all have hints for nodes',
    internal,
    [at(1, both('node-a', 'a')), at(2, zones('b'))],
    'node-a/a',
    '1||1|any',
  ],
  [
    'all where neither node nor zone is named',
    internal,
    [at(1, both('node-a', 'a')), at(2, both('node-b', 'b'))],
    'node-x/c',
    '12||12|any',
  ],
  [
    'a zone named like a node does not match the node',
    internal,
    [at(1, zones('node-a')), at(2, zones('b'))],
    'node-a/a',
    '12||12|any',
  ],
  // local policies
  ['inside, only this node', internalLocal, [at(1), at(2)], 'node-a/a', '|1|1|any'],
  ['inside, nothing on a node without any', internalLocal, [at(2)], 'node-a/a', '|||any'],
  ['inside, nothing when there is none at all', internalLocal, [at(1, down)], 'node-a/a', '|||none'],
  ['outside, both lists', externalLocal, [at(1), at(2)], 'node-a/a', '12|1|12|any'],
  ['outside, the short cut to others on a node without any', externalLocal, [at(2)], 'node-a/a', '2||2|any'],
  ['outside with policy Cluster, one list', nodePort, [at(1), at(2)], 'node-a/a', '12||12|any'],
  ['policy Local without an external frontend, one list', localWithoutWayIn, [at(1), at(2)], 'node-a/a', '12||12|any'],
  ['policy Local inside, Cluster outside, both lists', localInside, [at(1), at(2)], 'node-b/b', '12|2|12|any'],
  ['policy Local on both sides, both lists', bothLocal, [at(1), at(2)], 'node-a/a', '12|1|12|any'],
  ['local, whatever the hints say', externalLocal, [at(1, zones('b')), at(2, zones('b'))], 'node-a/a', '12|1|12|any'],
  [
    'a local one that the hints leave out has a chain, too',
    externalLocal,
    [at(2, zones('a')), at(3, zones('b'))],
    'node-b/b',
    '3|2|23|any',
  ],
  [
    'a local one that leaves, beside ready ones elsewhere',
    externalLocal,
    [at(1, leaving), at(2)],
    'node-a/a',
    '2|1|12|any',
  ],
  [
    'a local ready one before a local one that leaves',
    externalLocal,
    [at(1, { ...leaving, nodeName: 'node-b' }), at(2)],
    'node-b/b',
    '2|2|2|any',
  ],
  ['all that leave, here and elsewhere', externalLocal, [at(1, leaving), at(2, leaving)], 'node-a/a', '12|1|12|any'],
  ['an endpoint without a node is local nowhere', externalLocal, [at(4)], 'node-a/a', '4||4|any'],
])('%s', (_title, port, endpoints, where, expected) => {
  expect(selected(port, inFamily({ endpoints }), where)).toBe(expected);
});

test.each<[string, Partial<PortOfFamily>]>([
  ['an external address', { externalIPs: ['192.0.2.50'] }],
  ['a load-balancer address', { loadBalancerIPs: ['203.0.113.9'] }],
])('%s is an external frontend, like a node port', (_title, here) => {
  expect(selected(localWithoutWayIn, inFamily({ ...here, endpoints: [at(1), at(2)] }), 'node-a/a')).toBe('12|1|12|any');
});
