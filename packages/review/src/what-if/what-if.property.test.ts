import fc from 'fast-check';
import { runs } from '@sluice/testing';
import { expect, test } from 'vitest';
import { failuresOf } from '../failures/failures.ts';
import type { PortEffect } from '../failures/effect.ts';
import type { FailedPlace } from '../failures/failure.ts';
import { viewOf } from '../bundle/view.ts';
import { traceOnNode } from '../trace/trace-node.ts';
import {
  nameOfNode,
  type SampleEndpoint,
  type SampleNode,
  sampleBundle,
  type SampleService,
} from './cluster.fixture.ts';

// The judge is the tracer: a cluster without what has failed is rendered, and its packets are traced.

const zones = ['a', 'b', 'c'] as const;
const numbers = [1, 2, 3, 4] as const;
const someNodes = fc
  .tuple(...numbers.map((number) => fc.record({ number: fc.constant(number), zone: fc.constantFrom(...zones) })))
  .map((list): readonly SampleNode[] => list);

const someEndpoints = fc
  .tuple(fc.boolean(), fc.boolean(), fc.integer({ min: 0, max: 5 }))
  .chain(([byZone, byNode, count]) =>
    fc.tuple(
      ...Array.from({ length: count }, (_, index) =>
        fc
          .record({
            node: fc.option(fc.constantFrom(...numbers), { nil: undefined, freq: 6 }),
            state: fc.constantFrom('ready', 'ready', 'ready', 'not ready', 'terminating'),
            hintZones: byZone ? fc.subarray([...zones], { minLength: 1, maxLength: 2 }) : fc.constant([]),
            hintNodes: byNode ? fc.subarray([...numbers], { minLength: 1, maxLength: 2 }) : fc.constant([]),
          })
          .map(
            ({ node, ...rest }): SampleEndpoint => ({
              address: `10.244.${node ?? 9}.${10 + index}`,
              ...(node === undefined ? {} : { node }),
              ...rest,
            }),
          ),
      ),
    ),
  );

const someService: fc.Arbitrary<SampleService> = fc.record({
  name: fc.constant('web'),
  clusterIP: fc.constant('10.96.0.10'),
  nodePort: fc.constant(30_080),
  internal: fc.constantFrom('Cluster', 'Cluster', 'Local'),
  external: fc.constantFrom('Cluster', 'Local'),
  endpoints: someEndpoints,
});

const somePlaces = (
  nodes: readonly SampleNode[],
  { endpoints }: SampleService,
): readonly (readonly FailedPlace[])[] => [
  ...nodes.map(({ number }): readonly FailedPlace[] => [{ kind: 'node', name: nameOfNode(number) }]),
  ...[...new Set(nodes.map(({ zone }) => zone))].map((name): readonly FailedPlace[] => [{ kind: 'zone', name }]),
  ...endpoints.slice(0, 1).map(({ address }): readonly FailedPlace[] => [{ kind: 'endpoint', name: address }]),
];

interface Cluster {
  readonly nodes: readonly SampleNode[];
  readonly service: SampleService;
}

/** The cluster that is left. */
function without({ nodes, service }: Cluster, places: readonly FailedPlace[]): Cluster {
  const isLost = (kind: FailedPlace['kind'], name: string | undefined): boolean =>
    places.some((place) => place.kind === kind && place.name === name);
  const left = nodes.filter(({ number, zone }) => !isLost('node', nameOfNode(number)) && !isLost('zone', zone));
  const isOn = (number: number | undefined): boolean =>
    number === undefined || left.some((node) => node.number === number);
  const endpoints = service.endpoints.filter(({ address, node }) => isOn(node) && !isLost('endpoint', address));
  return { nodes: left, service: { ...service, endpoints } };
}

/** What packets meet on each node: `reject`, `drop` or the shares of endpoints. */
interface Traffic {
  readonly inside: ReadonlyMap<number, ReadonlyMap<string, number>>;
  readonly outside: ReadonlyMap<number, ReadonlyMap<string, number>>;
}

function trafficOf({ nodes, service }: Cluster, mode: 'iptables' | 'nftables'): Traffic {
  const files = sampleBundle(nodes, [service], mode);
  const ends = (number: number, from: string, destination: string, port: number): ReadonlyMap<string, number> => {
    const to = { family: 'ipv4', destination, port, protocol: 'tcp' } as const;
    const traced = traceOnNode(files, { node: nameOfNode(number), from, layout: 'flat', ...to });
    return new Map(traced.ways.map(({ verdict, to: end, probability }) => [end ?? verdict, probability]));
  };
  const at = (trace: (number: number) => ReadonlyMap<string, number>): Traffic['inside'] =>
    new Map(nodes.map(({ number }) => [number, trace(number)]));
  return {
    inside: at((number) => ends(number, `10.244.${number}.200`, service.clusterIP, 80)),
    outside: at((number) => ends(number, '198.51.100.7', `192.0.2.${number}`, service.nodePort)),
  };
}

const isServed = (ends: ReadonlyMap<string, number> | undefined): boolean =>
  ends !== undefined && [...ends.keys()].some((end) => end.includes(':'));

/** What the traces say, in the form of an effect. */
function observed(before: Traffic, after: Traffic): object {
  const bereft = (way: keyof Traffic): readonly string[] =>
    [...after[way]].flatMap(([number, ends]) =>
      isServed(before[way].get(number)) && !isServed(ends) ? [nameOfNode(number)] : [],
    );
  const isGone = [...after.inside.values()].every((ends) => !isServed(ends) && !ends.has('drop'));
  const some = (way: keyof Traffic, traffic: Traffic): boolean => [...traffic[way].values()].some(isServed);
  return {
    isGone,
    inside: isGone ? [] : bereft('inside'),
    outside: isGone ? [] : bereft('outside'),
    isDark: isGone || (some('outside', before) && !some('outside', after)),
    ...shareOfMost(before, after),
  };
}

/** The greatest share after a failure of an endpoint that gets more by it, and the least that one with this share had before. */
function shareOfMost(before: Traffic, after: Traffic): object {
  const was = sharesIn(before);
  const is = new Map([...sharesIn(after)].filter(([end, share]) => share > (was.get(end) ?? 0) + 1e-6));
  const most = Math.max(0, ...is.values());
  const had = [...is].flatMap(([end, share]) => (share > most - 1e-6 ? [was.get(end) ?? 0] : []));
  return { before: Math.min(1, ...(had.length === 0 ? [0] : had)).toFixed(6), after: most.toFixed(6) };
}

function sharesIn({ inside }: Traffic): ReadonlyMap<string, number> {
  const served = [...inside.values()].filter(isServed);
  const sums = new Map<string, number>();
  for (const ends of served)
    for (const [end, share] of ends) sums.set(end, (sums.get(end) ?? 0) + share / served.length);
  return sums;
}

/** Whether clients on each node that is left are served. */
const servedIn = ({ inside }: Traffic, left: Traffic): readonly boolean[] =>
  [...left.inside.keys()].map((number) => isServed(inside.get(number)));

const claimed = ({ isGone, without: bereft, dark, share }: PortEffect): object => ({
  isGone,
  inside: bereft.find(({ policy }) => policy.startsWith('internal'))?.nodes ?? [],
  outside: bereft.find(({ policy }) => policy.startsWith('external'))?.nodes ?? [],
  isDark: dark.length > 0,
  before: share.before.toFixed(6),
  after: share.after.toFixed(6),
});

test.each(['iptables', 'nftables'] as const)('judges a failure as packets do without what failed, mode %s', (mode) => {
  fc.assert(
    fc.property(someNodes, someService, (nodes, service) => {
      const cluster = { nodes, service };
      const view = viewOf(sampleBundle(nodes, [service], mode));
      const failures = failuresOf(view);
      const before = trafficOf(cluster, mode);
      for (const places of somePlaces(nodes, service)) {
        const left = without(cluster, places);
        if (left.nodes.length === 0) continue;
        const after = trafficOf(left, mode);
        const [effect] = failures.effects(places).effects;
        expect(effect ? claimed(effect) : servedIn(before, after)).toEqual(
          effect ? observed(before, after) : servedIn(after, after),
        );
      }
    }),
    runs(40),
  );
});
