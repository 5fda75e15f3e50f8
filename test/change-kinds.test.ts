import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Family } from '@sluice/netfilter';
import { reaches, runs } from '@sluice/testing';
import { admit, AdmitMemory, isRefusal } from '../packages/applier/src/apply/admission/admit.ts';
import type { ChainLayout } from '../packages/applier/src/apply/admission/linking.ts';
import type { NodeState } from '../packages/applier/src/ports/node-state.ts';
import { type ChangeClass, classify } from '../packages/applier/src/apply/endpoints/change-kind.ts';
import { assemble } from '../packages/renderer/src/render/assemble.ts';
import { somePort } from '../packages/renderer/src/render/compile/arbitrary.fixture.ts';
import {
  configWith,
  endpoint,
  inFamily,
  node,
  portWith,
  profileWith,
  serviceOf,
} from '../packages/renderer/src/render/compile/sample.fixture.ts';
import type { ServicePort } from '../packages/renderer/src/render/model/model.ts';
import { sampleFacts } from '../packages/applier/src/testing/node-facts.fixture.ts';

/**
 * The change kind of changed endpoints, on rules that `sluice render` writes: whatever the policies and addresses of a Service, they
 * are an endpoint update within the bounds, and the frontends with a first endpoint or without a last one are named.
 */

/** The endpoints of a port, by the node that each is on: the same in both families. */
type PodPlaces = Readonly<Record<string, 'here' | 'there'>>;

const nodes = { here: 'node-0', there: 'node-1' } as const;
const families = ['ipv4', 'ipv6'] as const satisfies readonly Family[];
const pods = ['1', '2', '3', '4', '5'];
const somePlaces: fc.Arbitrary<PodPlaces> = fc.dictionary(fc.constantFrom(...pods), fc.constantFrom('here', 'there'), {
  maxKeys: 5,
});
const own = { ipv4: '192.0.2.11', ipv6: 'fd00::11' } as const;

const facts = { ...sampleFacts, addresses: { ipv4: [own.ipv4], ipv6: [own.ipv6] } };

/** A second Service, so that the dispatch trees branch. */
const other = {
  ...serviceOf([
    portWith(
      { clusterIP: '10.96.7.2', endpoints: [endpoint('10.244.9.9:80')] },
      { key: 'shop/web:http', nodePort: 30_099 },
    ),
  ]),
  name: 'web',
};

type NodeProgram = ChainLayout | 'ipvs' | 'nftables';

/** The state of node-0 when the port has these endpoints. */
function stateOf(port: ServicePort, places: PodPlaces, program: NodeProgram): NodeState {
  const at = (family: Family) => {
    const text = (pod: string, place: 'here' | 'there'): string =>
      family === 'ipv4'
        ? `10.244.${place === 'here' ? 1 : 2}.${pod}:80`
        : `[fd00:10:244:${place === 'here' ? 1 : 2}::${pod}]:80`;
    const endpoints = Object.entries(places).map(([pod, place]) =>
      endpoint(text(pod, place), { nodeName: nodes[place] }),
    );
    return { ...(port.families[family] ?? inFamily()), endpoints };
  };
  const served = families.filter((family) => port.families[family]);
  const fresh = { ...port, families: Object.fromEntries(served.map((family) => [family, at(family)])) };
  const ipvs = {
    scheduler: 'rr',
    excludeCIDRs: [],
    strictARP: false,
    timeouts: { tcp: 0, tcpFin: 0, udp: 0 },
  } as const;
  const profile = profileWith({
    nodePortAddresses: ['0.0.0.0/0', '::/0'],
    ...(program === 'ipvs' ? { mode: 'ipvs', ipvs } : {}),
    ...(program === 'nftables' ? { mode: 'nftables', nftables: { masqueradeAll: false } } : {}),
  });
  const model = { nodes: [node('node-0'), node('node-1')], services: [serviceOf([fresh]), other] };
  const { files } = assemble(model, configWith({ profiles: [profile] }), true);
  const layout = program === 'flat' ? 'flat' : 'tree';
  const bundle = admit(files, { node: 'node-0', allowPartial: false, layout }, facts, new AdmitMemory());
  if (isRefusal(bundle)) throw new Error(bundle.problems[0]?.message);
  return bundle.state;
}

/** A set of endpoints before and after a change. */
interface EndpointChange {
  readonly had: readonly string[];
  readonly has: readonly string[];
}

const every = (places: PodPlaces): readonly string[] => Object.entries(places).map(([pod, place]) => `${place} ${pod}`);
const near = (places: PodPlaces): readonly string[] => every(places).filter((one) => one.startsWith('here'));
const overall = (before: PodPlaces, after: PodPlaces): EndpointChange => ({ had: every(before), has: every(after) });
const local = (before: PodPlaces, after: PodPlaces): EndpointChange => ({ had: near(before), has: near(after) });

/** Whether more of the endpoints change at once than an endpoint update may. */
const isTooMuch = ({ had, has }: EndpointChange): boolean => {
  const lost = had.filter((one) => !has.includes(one)).length;
  return had.length > 0 && has.length > 0 && lost > Math.max(1, had.length / 2);
};
const end = ({ had, has }: EndpointChange): End | undefined => {
  if ((had.length === 0) === (has.length === 0)) return undefined;
  return had.length === 0 ? 'first' : 'last';
};
type End = 'first' | 'last';

/** An address of the port, as `FirstAndLast` names it. */
interface PortAddress {
  readonly name: string;
  readonly isInside: boolean;
  readonly isLocal: boolean;
  /** Whether it never leads to endpoints of other nodes, which could replace local ones. */
  readonly isOnlyLocal: boolean;
}

function frontendsOf(port: ServicePort, family: Family, program: NodeProgram): readonly PortAddress[] {
  const here = port.families[family];
  if (!here) return [];
  const isOutside = port.nodePort !== 0 || here.externalIPs.length + here.loadBalancerIPs.length > 0;
  const frontend = (address: string, number: number, isInside: boolean): PortAddress => ({
    isOnlyLocal: port.internalTrafficPolicy === 'Local' && !isOutside,
    name: `${family} ${port.protocol.toLowerCase()} ${address} ${number}`,
    isInside,
    isLocal: (isInside ? port.internalTrafficPolicy : port.externalTrafficPolicy) === 'Local',
  });
  return [
    frontend(here.clusterIP, port.port, true),
    ...[...here.externalIPs, ...here.loadBalancerIPs].map((address) => frontend(address, port.port, false)),
    ...(port.nodePort === 0 ? [] : [frontend(program === 'ipvs' ? own[family] : '*', port.nodePort, false)]),
  ];
}

/** The effect on a frontend; `too much`: it needs probation. */
type Judge = (frontend: PortAddress, before: PodPlaces, after: PodPlaces) => End | 'too much' | undefined;

/** Rules, and the table of mode nftables: from outside, policy Local applies except to pods and the node. A DROP in the place of a REJECT counts as a first endpoint. */
const inIptables: Judge = ({ isInside, isLocal }, before, after) => {
  const [all, here] = [overall(before, after), local(before, after)];
  const used = [...(isLocal ? [here] : []), ...(isInside && isLocal ? [] : [all])];
  if (used.some(isTooMuch)) return 'too much';
  const ends = used.map(end);
  return ends.find((one) => one !== undefined) ?? (end(all) === undefined ? undefined : 'first');
};

/** Virtual servers: with policy Local they use all endpoints where this node has none, and switch between the two sets. */
const inIpvs: Judge = ({ isInside, isLocal, isOnlyLocal }, before, after) => {
  const real = (places: PodPlaces): readonly string[] =>
    isLocal && (isOnlyLocal || near(places).length > 0) ? near(places) : every(places);
  const change = { had: real(before), has: real(after) };
  if (!isTooMuch(change)) return end(change);
  const isHere = (one: string): boolean => one.startsWith('here');
  if (change.had.every(isHere) && !change.has.some(isHere)) return 'last';
  if (change.had.some(isHere) || !change.has.every(isHere)) return 'too much';
  return isLocal && !isInside ? 'first' : 'last';
};

/** The expected change kind, from the Service itself. */
function expected(port: ServicePort, before: PodPlaces, after: PodPlaces, program: NodeProgram): ChangeClass {
  const frontends = families.flatMap((family) => frontendsOf(port, family, program));
  const judge = program === 'ipvs' ? inIpvs : inIptables;
  const found = frontends.map((frontend) => ({ name: frontend.name, what: judge(frontend, before, after) }));
  if (found.some(({ what }) => what === 'too much')) return { changeKind: 'release' };
  const named = (kind: End): readonly string[] => found.filter(({ what }) => what === kind).map(({ name }) => name);
  const [first, last] = [named('first'), named('last')];
  return first.length + last.length === 0 ? { changeKind: 'endpoints' } : { changeKind: 'endpoints', first, last };
}

const sorted = ({ changeKind, first, last }: ChangeClass): ChangeClass => ({
  changeKind,
  ...(first ? { first: first.toSorted() } : {}),
  ...(last ? { last: last.toSorted() } : {}),
});

test.each(['tree', 'flat', 'ipvs', 'nftables'] as const)(
  'added and removed endpoints are an update within the bounds, in %s',
  (program) => {
    const met = new Map<string, number>();
    fc.assert(
      fc.property(somePort, somePlaces, somePlaces, (port, before, after) => {
        const [from, desired] = [stateOf(port, before, program), stateOf(port, after, program)];
        const told = sorted(classify(from, desired));
        expect(told).toEqual(sorted(expected(port, before, after, program)));
        const what = `${told.changeKind} ${(told.first?.length ?? 0) > 0} ${(told.last?.length ?? 0) > 0}`;
        met.set(what, (met.get(what) ?? 0) + 1);
      }),
      runs(200),
    );
    // Tier quick draws too few cases to meet every kind.
    if (!reaches('test')) return;
    const kinds = ['endpoints false false', 'endpoints true false', 'endpoints false true', 'release false false'];
    expect(
      kinds.filter((kind) => (met.get(kind) ?? 0) < 10),
      'each kind is met',
    ).toEqual([]);
  },
);

/** The whole state of a node, as one text. */
const textOf = ({ families: tables, ipvs, nft }: NodeState): string =>
  JSON.stringify([tables, ipvs, nft], (_key, value: unknown) =>
    value instanceof Map || value instanceof Set ? [...value] : value,
  );

test.each(['tree', 'flat', 'ipvs', 'nftables'] as const)(
  'any other change with them is a release, in %s',
  (program) => {
    fc.assert(
      fc.property(somePort, somePort, somePlaces, somePlaces, (port, changed, before, after) => {
        // Rules can be compared if the port is served before and after.
        const fixed: PodPlaces = { 8: 'here', 9: 'there' };
        const { protocol, nodePort, externalTrafficPolicy } = changed;
        // Modes ipvs and nftables know of the policy inside only through the endpoints of an address.
        const { internalTrafficPolicy } = program === 'ipvs' || program === 'nftables' ? port : changed;
        const fresh = { ...port, protocol, nodePort, internalTrafficPolicy, externalTrafficPolicy };
        fc.pre(textOf(stateOf(port, fixed, program)) !== textOf(stateOf(fresh, fixed, program)));
        const [from, desired] = [
          stateOf(port, { ...before, ...fixed }, program),
          stateOf(fresh, { ...after, ...fixed }, program),
        ];
        expect(classify(from, desired)).toEqual({ changeKind: 'release' });
      }),
      runs(60),
    );
  },
);
