import {
  compareText,
  type Family,
  getOrInsert,
  type Packet,
  perKey,
  type Problem,
  refusal,
  Stopped,
  TraceError,
} from '@sluice/netfilter';
import { addressOf, compareDestinations, keyOf, loopback } from './destinations.ts';
import type { Destination, TrafficFlow, FlowOutcome, NodeGroup, FlowSource } from './flow.ts';
import { type Distinctions, groupNodes } from './groups.ts';
import { type OwnNodes, ownNodesOf, type Slice } from './own-nodes.ts';
import { outcomeOf } from './outcome.ts';
import { choosingPlaneOf } from './planes/planes.ts';
import { factOf, type NodeOf, nodeOf } from '../bundle/node.ts';
import { asSent, programOf } from './program.ts';
import type { NodeProgram } from './planes/plane.ts';
import { namedInRules, sourcesOf, withoutPlainEndpoints } from './sources.ts';
import type { BundleView } from '../bundle/view.ts';

/** A flow in one bundle, or in both that are compared. */
export interface FlowRow extends Omit<TrafficFlow, 'outcome'> {
  /** One for each bundle. */
  readonly outcomes: readonly FlowOutcome[];
}

/** Selects the flows to trace. */
interface FlowQuestion {
  /** The profile of the nodes in each bundle. */
  readonly profiles: readonly string[];
  readonly family: Family;
  readonly destinations: readonly Destination[];
  readonly nodes: readonly string[];
  /** Leave out endpoints that rules treat as any other pod, but for connections to themselves. */
  readonly withoutPlainEndpoints?: boolean;
  /** Distinctions between nodes and sources that rules alone do not show, for some of the destinations. */
  readonly distinctions?: (destinations: readonly Destination[]) => Distinctions;
}

/**
 * Traces every flow to the given destinations, by node group, in the rules that nodes would run.
 * Only the Service files that a packet can match are linked (`ReachIndex.relevant`), so the cost grows with the destinations
 * and not with the bundle.
 * @param views one bundle, or both that are compared
 * @throws Stopped when nodes would refuse the rules, or the tracer does not understand them
 */
export function* flowRows(views: readonly BundleView[], question: FlowQuestion): Generator<FlowRow> {
  for (const [, unit] of unitsOf(views, question)) {
    const slices = views.map((view, at): Slice => ({ view, paths: unit.paths[at]! }));
    const distinctions = question.distinctions?.(unit.destinations);
    const ownNodes = ownNodesOf(slices, distinctions?.ownNodes);
    for (const nodes of groupNodes(unit.nodes, question.profiles.at(-1)!, question.family, slices, distinctions)) {
      const { family, withoutPlainEndpoints: isShort = false } = question;
      yield* rowsOfGroup({ slices, nodes, family, ownNodes, distinctions, isShort }, unit.destinations);
    }
  }
}

/** Destinations whose packets can match the same files, so that one program serves all of them. */
interface DestinationUnit {
  /** For each view. */
  readonly paths: readonly (readonly string[])[];
  readonly destinations: Destination[];
  readonly nodes: readonly string[];
}

function unitsOf(
  views: readonly BundleView[],
  { profiles, family, destinations, nodes }: FlowQuestion,
): Map<string, DestinationUnit> {
  const units = new Map<string, DestinationUnit>();
  const add = (destination: Destination, address: string, members: readonly string[], tag: string): void => {
    const paths = views.map((view, at) => view.index(profiles[at]!, family).relevant(keyOf(destination, address)));
    const key = `${tag}\n${paths.map((list) => list.join(' ')).join('\n')}`;
    getOrInsert(units, key, () => ({ paths, destinations: [], nodes: members })).destinations.push(destination);
  };
  // A Service may have the address of a node; there its rules match packets to the node's own ports too.
  const claimed = claimedAddresses(views, profiles, family);
  const special = nodes.filter((name) => claimed.has(addressIn(views, name, family) ?? ''));
  const plain = nodes.filter((name) => !special.includes(name));
  for (const destination of destinations) {
    if (destination.kind !== 'node-port') add(destination, addressOf(destination, family, undefined)!, nodes, '');
    else {
      if (plain.length > 0) add(destination, 'node', plain, special.length > 0 ? 'plain' : '');
      for (const name of special) add(destination, addressIn(views, name, family)!, [name], name);
    }
  }
  return units;
}

function addressIn(views: readonly BundleView[], name: string, family: Family): string | undefined {
  return factOf(nodeOf(views[0]!, name), family, 'address');
}

/** Node addresses that are Services' addresses as well, such as an external IP. */
export function claimedAddresses(
  views: readonly BundleView[],
  profiles: readonly string[],
  family: Family,
): ReadonlySet<string> {
  const own = new Set(views.flatMap((view) => [...view.nodes.keys()].map((name) => addressIn([view], name, family))));
  return new Set(
    views.flatMap((view, at) => [...view.index(profiles[at]!, family).addresses].filter((address) => own.has(address))),
  );
}

/** Nodes that the files treat equally, but for packets that endpoints send to themselves. */
interface GroupOfFiles {
  readonly slices: readonly Slice[];
  readonly nodes: NodeGroup;
  readonly family: Family;
  readonly ownNodes: OwnNodes;
  readonly distinctions: Distinctions | undefined;
  /** Without plain endpoints. */
  readonly isShort: boolean;
}

/** All flows on the first node; those of an endpoint on each of its own nodes, too. */
function* rowsOfGroup(group: GroupOfFiles, destinations: readonly Destination[]): Generator<FlowRow> {
  const { ownNodes } = group;
  const { profile, nodes } = group.nodes;
  const ofEndpoint = (source: FlowSource): ReadonlySet<string> =>
    (source.class === 'endpoint' ? ownNodes.get(source.address) : undefined) ?? new Set();
  const [first = ''] = nodes;
  yield* rowsOn(group, first, destinations, (source) => {
    const own = ofEndpoint(source);
    if (own.size === 0) return group.nodes;
    return { profile, nodes: own.has(first) ? [first] : nodes.filter((name) => !own.has(name)) };
  });
  const others = new Set([...ownNodes.values()].flatMap((names) => [...names]));
  for (const name of nodes)
    if (name !== first && others.has(name))
      yield* rowsOn(group, name, destinations, (source) =>
        ofEndpoint(source).has(name) ? { profile, nodes: [name] } : undefined,
      );
}

/** The flows on one node. @param nodesOf the nodes for which it stands, by source; undefined: that source is not traced */
function* rowsOn(
  { slices, family, distinctions, isShort }: GroupOfFiles,
  name: string,
  destinations: readonly Destination[],
  nodesOf: (source: FlowSource) => NodeGroup | undefined,
): Generator<FlowRow> {
  const programs = slices.map((slice) => programOf(slice.view, nodeOf(slice.view, name), family, slice.paths));
  const { view } = slices.at(-1)!;
  const node = nodeOf(view, name);
  const own = factOf(node, family, 'address');
  const locals = slices.map((slice) => localsOf(nodeOf(slice.view, name), family));
  const declared = distinctions?.networks;
  const named = namedInRules(programs, family);
  const all = sourcesOf(view, node, family, programs, declared, named);
  const sources = isShort ? withoutPlainEndpoints(all, { view, node, family, programs, declared, named }) : all;
  const withoutEndpoints = sources.filter((source) => source.class !== 'endpoint');
  const areTables = programs.every((program) => choosingPlaneOf(program).looksAtFrontendsAlone);
  for (const destination of destinations) {
    const address = addressOf(destination, family, own);
    if (address === undefined) continue;
    // The table looks at the source of a packet for frontends alone, and at endpoints for what it has translated.
    const some = areTables && destination.kind === 'elsewhere' ? withoutEndpoints : sources;
    for (const source of reaching(destination, address, some)) {
      const nodes = nodesOf(source);
      if (!nodes) continue;
      const packet = packetOf(source, destination, address, family);
      const outcomes = programs.map((program, at) => traced(program, packet, locals[at]!, name));
      yield { nodes, family, source, destination, packet, outcomes };
    }
  }
}

const knownLocals = perKey<NodeOf, readonly string[]>();

/** The known addresses of a node: one list for all flows there, for which the tracer reads it once. */
const localsOf = (node: NodeOf, family: Family): readonly string[] =>
  knownLocals(node, family, () => {
    const local = factOf(node, family, 'address');
    return local === undefined ? [] : [local];
  });

/**
 * The sources to trace for a destination. `localhost` is reachable from the node alone; where other hosts must not reach a loopback
 * address, all sources but the node try.
 */
function reaching({ kind }: Destination, address: string, sources: readonly FlowSource[]): readonly FlowSource[] {
  if (kind === 'localhost') return [{ class: 'node', address }];
  if (address === loopback.ipv4 || address === loopback.ipv6)
    return sources.filter((source) => source.class !== 'node');
  return sources;
}

function packetOf(source: FlowSource, { protocol, port }: Destination, address: string, family: Family): Packet {
  const from = { family, source: source.address, destination: address, protocol, port } as const;
  return source.in === undefined ? from : { ...from, in: source.in };
}

function traced(program: NodeProgram, packet: Packet, locals: readonly string[], node: string): FlowOutcome {
  try {
    return outcomeOf(program, asSent(packet, program), locals);
  } catch (error) {
    if (error instanceof TraceError) throw new Stopped([untraceable(error.message, node)]);
    throw error;
  }
}

const untraceable = (message: string, node: string): Problem =>
  refusal('RULE_REFUSED', message, 'Render the bundle again: rules that were edited by hand cannot be reviewed', {
    object: `Node ${node}`,
  });

/** Orders by destination, then nodes, so that related rows are adjacent. */
export function compareRows(a: Omit<TrafficFlow, 'outcome'>, b: Omit<TrafficFlow, 'outcome'>): number {
  return (
    compareText(a.destination.services.join(), b.destination.services.join()) ||
    compareText(a.nodes.profile, b.nodes.profile) ||
    compareText(a.family, b.family) ||
    compareDestinations(a.destination, b.destination) ||
    compareText(a.nodes.nodes[0]!, b.nodes.nodes[0]!)
  );
}
