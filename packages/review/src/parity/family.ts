import { isSameBut } from '../prove/mode-differences.ts';
import type { FlowRow } from '../flows/flows.ts';
import { addressOfEndpoint, type Packet } from '@sluice/netfilter';
import { addressOf, loopback, placeOf } from '../flows/destinations.ts';
import type { Destination, FlowOutcome, FlowSource } from '../flows/flow.ts';
import type { NodeProgram } from '../flows/planes/plane.ts';
import { namedInRules, sourcesOf } from '../flows/sources.ts';
import { unreadParts } from '../observed/parts.ts';
import type { DeclaredFrontend } from '../prove/declared.ts';
import { isSameOutcome } from '../prove/equivalence.ts';
import { desiredOutcome, packetOf } from './cases.ts';
import { aspectOf, comparedChoices } from './causes.ts';
import { type ClosedPacket, type ConnectionCase, connectionCases } from './connections.ts';
import type { DifferingCase } from './differing-case.ts';
import { foreignOf, isOfTranslation } from './foreign.ts';
import { frontendsOf } from './frontends.ts';
import { byLoad, type FoundGap, Gaps, unreadServers } from './gaps.ts';
import {
  byInterfaces,
  existing,
  isMartian,
  isOwnByWire,
  isPassed,
  isRefused,
  listener,
  unknownInterface,
  unseenListener,
} from './packets.ts';
import { Settings } from './settings.ts';
import { otherAddresses, type ParitySubject, type Sides, sidesOf, otherUnicast } from './sides.ts';
import type { TrackedFrontends } from './tracked.ts';

/** What a comparison in one family found. */
export interface FamilyComparison {
  readonly frontends: number;
  readonly sources: ReadonlySet<string>;
  readonly cases: number;
  readonly differing: readonly DifferingCase[];
  readonly gaps: readonly FoundGap[];
  readonly settings: Settings;
  /** Later packets of connections, and packets of none. */
  readonly connections: readonly ConnectionCase[];
  readonly tracked: TrackedFrontends;
}

/** Compares every frontend of either side from every class of sources, in one family. @throws Stopped */
export function compareFamily(subject: ParitySubject): FamilyComparison {
  const sides = sidesOf(subject);
  const { view, node, seen, family, modes, own, observed, declaredAt } = sides;
  const isUnread = unreadParts(seen, family).length > 0;
  const destinations = isUnread ? [] : frontendsOf(view, node.file.profile, seen, observed);
  const plainSources = sourcesOf(view, node, family, []).filter(({ network }) => network === undefined);
  const outside = plainSources.find((source) => source.class === 'outside');
  const others = otherAddresses(sides, destinations, outside);
  const found = new FoundCases();
  const compareAt = (destination: Destination, address: string): void => {
    const at = frontendAt(sides, destination, address);
    const sources = at.isOtherAddress ? plainSources : dividedSources(sides, at);
    for (const source of sources) compareCase(sides, at, source, found);
    const second = secondSource(sides, at);
    if (second) compareCase(sides, at, second, found);
  };
  for (const destination of destinations) {
    const address = addressOf(destination, family, own);
    if (address !== undefined) compareAt(destination, address);
    if (destination.kind === 'node-port') for (const other of others) compareAt(destination, other);
  }
  const { cases, gaps } = isUnread
    ? { cases: [], gaps: [] }
    : connectionCases(view, node, observed, seen, found.closed);
  found.gaps.addAll(gaps);
  found.gaps.addAll(unreadServers(observed, destinations));
  return {
    frontends: destinations.length,
    sources: found.sources,
    cases: found.cases + cases.length + gaps.length,
    differing: found.differing,
    gaps: found.gaps.all,
    settings: found.settings,
    connections: cases,
    tracked: { family, destinations, declaredAt, addresses: observed.addresses, modes },
  };
}

/** What the cases of a family add up to. */
class FoundCases {
  readonly sources = new Set<string>();
  cases = 0;
  readonly differing: DifferingCase[] = [];
  readonly gaps = new Gaps();
  readonly settings = new Settings();
  /** Packets that both sides refuse. */
  readonly closed: ClosedPacket[] = [];
}

/** A destination at one address. */
interface FrontendAt {
  readonly destination: Destination;
  readonly to: Pick<Packet, 'family' | 'destination' | 'port' | 'protocol'>;
  readonly frontend: DeclaredFrontend | undefined;
  readonly program: NodeProgram;
  /** Of a node port: whether the address is another than that of the Node. */
  readonly isOtherAddress: boolean;
}

function frontendAt(
  { family, own, declaredAt, programAt }: Sides,
  destination: Destination,
  address: string,
): FrontendAt {
  return {
    destination,
    to: { family, destination: address, port: destination.port, protocol: destination.protocol },
    frontend: declaredAt.get(placeOf(destination)),
    program: programAt(destination, address),
    isOtherAddress: destination.kind === 'node-port' && address !== own,
  };
}

/** Compares the packet of one source to a frontend. @param found what is added to */
function compareCase(sides: Sides, at: FrontendAt, source: FlowSource, found: FoundCases): void {
  const { node, family, seen, observed } = sides;
  const { destination, frontend, program, isOtherAddress } = at;
  if (!mayStart(source, sides) || isOwnByWire(source, observed)) return;
  const packet = packetOf(source, at.to, observed);
  found.cases++;
  found.sources.add(`${source.class} ${source.network ?? ''}`);
  const traced = sides.tracer.trace(packet);
  if (traced.kind === 'not-covered') return found.gaps.addAll(traced.gaps);
  found.gaps.addAll(sides.lostBy(packet));
  const desired = desiredOutcome(program, observed, packet);
  const row = { nodes: { profile: node.file.profile, nodes: [node.name] }, family, source, destination, packet };
  const compared = { row, frontend, observed: traced.outcome, desired };
  const [one, other] = [visible(traced.outcome), visible(desired)];
  const choices = isSameOutcome(one, other) ? comparedChoices(one, other) : 'different';
  if (choices === 'load') found.gaps.add(byLoad(one, other), false);
  if (choices !== 'different' || isUnobservable(row, frontend, one, other)) {
    if (mayBeClosed(source, destination) && isRefused(one) && isRefused(other)) found.closed.push({ packet, program });
    return found.settings.note(compared, undefined);
  }
  const foreign = foreignOf(observed, packet, isPassed(one) && isRefused(other));
  if (foreign && destination.kind === 'elsewhere' && isPassed(other) && !isOfTranslation(foreign, one)) return;
  const unknown = unknownInterface(source, seen) ?? unseenListener(seen, row, one, other);
  if (unknown) return found.gaps.add(unknown, unknown !== listener);
  found.settings.note(compared, aspectOf(traced.outcome, desired));
  found.differing.push({ ...compared, node, modes: sides.modes, isOtherAddress, proxy: sides.proxy, foreign });
}

/** Of a frontend that refuses them, one packet of a process of the node and one of a client outside. A datagram of UDP always begins a connection. */
const mayBeClosed = ({ class: kind, network }: FlowSource, { protocol }: Destination): boolean =>
  protocol === 'tcp' && network === undefined && (kind === 'node' || kind === 'outside');

/** Packets of an endpoint start on the node that its slice names; those of an endpoint that only the observed side has, anywhere. */
const mayStart = ({ class: kind, address }: FlowSource, { endpointNodes, node }: Sides): boolean =>
  kind !== 'endpoint' || !endpointNodes.has(address) || endpointNodes.get(address) === node.name;

/** Each class of sources once. The caller traces one before it takes the next: rules that packets meet on the way may divide them further. */
function* dividedSources(
  { view, node, family, tracer, observed }: Sides,
  { destination, to: { destination: address }, program }: FrontendAt,
): Generator<FlowSource> {
  if (destination.kind === 'localhost') {
    yield { class: 'node', address };
    return;
  }
  const { networks, interfaces } = tracer.asked;
  networks.clear();
  interfaces.clear();
  const done = new Set<string>();
  const isLoopback = address === loopback[family];
  const programs = [program];
  const named = namedInRules(programs, family);
  // Rules of an observation are finite, and each round but the last adds what one of them asks for.
  for (let before = -1; networks.size + interfaces.size > before; ) {
    before = networks.size + interfaces.size;
    const sources = sourcesOf(view, node, family, programs, [...networks].toSorted(), named);
    const names = existing(interfaces, observed.interfaces);
    for (const source of [...sources, ...sources.flatMap((one) => byInterfaces(one, names))]) {
      const key = `${source.address} ${source.in ?? ''}`;
      if (done.has(key) || (isLoopback && source.class === 'node') || isMartian(source, address, observed)) continue;
      done.add(key);
      yield source;
    }
  }
}

/**
 * The node by its second address, for a cluster IP with a process of the node as its endpoint: from its first address packets come as from
 * the endpoint itself, which is masqueraded in any case.
 */
function secondSource(sides: Sides, { frontend }: FrontendAt): FlowSource | undefined {
  const { own } = sides;
  const isEndpoint =
    frontend?.role === 'cluster' &&
    frontend.declared.notes.endpoints.some(({ text }) => addressOfEndpoint(text) === own);
  const [second] = isEndpoint ? otherUnicast(sides) : [];
  return second === undefined ? undefined : { class: 'node', address: second };
}

/**
 * What packets show of an outcome. A client that has one endpoint only keeps it, whether rules remember it or not, unless they send it
 * elsewhere when it comes again; and a rule that accepts what no later one drops does nothing.
 */
export function visible({ branches, affinity, ...rest }: FlowOutcome): FlowOutcome {
  const isSeen =
    affinity !== undefined && (new Set(branches.map(({ to }) => to)).size > 1 || affinity.includes(' to '));
  return {
    ...rest,
    branches: branches.map((branch) => (branch.verdict === 'accept' ? { ...branch, verdict: 'pass' } : branch)),
    ...(isSeen ? { affinity } : {}),
  };
}

/** Packets of the node itself have one of its addresses, masqueraded or not; loopback addresses must be. */
export function isUnobservable(
  { source, destination }: Pick<FlowRow, 'source' | 'destination'>,
  frontend: DeclaredFrontend | undefined,
  observed: FlowOutcome,
  desired: FlowOutcome,
): boolean {
  if (source.class !== 'node' || destination.kind === 'localhost' || frontend?.role === 'cluster') return false;
  return isSameBut(observed, desired, () => true);
}
