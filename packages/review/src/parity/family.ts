import type { NotCovered, Observation } from '@sluice/bundle';
import {
  addressOfEndpoint,
  type Family,
  type LiveRule,
  type Mode,
  placeOfServer,
  parseAddress,
} from '@sluice/netfilter';
import { type NodeOf, factOf } from '../bundle/node.ts';
import type { BundleView } from '../bundle/view.ts';
import { addressOf, keyOf, loopback, placeOf } from '../flows/destinations.ts';
import type { Destination, FlowOutcome, FlowSource } from '../flows/flow.ts';
import type { FlowRow } from '../flows/flows.ts';
import { programOf } from '../flows/program.ts';
import type { NodeProgram } from '../flows/planes/plane.ts';
import { namedInRules, sourcesOf } from '../flows/sources.ts';
import { type Claim, claimsOf, declaredIn } from '../prove/declared.ts';
import { isSameOutcome } from '../prove/equivalence.ts';
import { isSameBut } from '../prove/mode-differences.ts';
import { type ClosedPacket, type ConnectionCase, connectionCases } from './connections.ts';
import { desiredOutcome, type Gap, ObservedTracer, packetOf } from './cases.ts';
import { aspectOf, comparedChoices } from './causes.ts';
import type { DifferingCase } from './differing-case.ts';
import { lostForwarding } from './forwarding.ts';
import { foreignOf, isOfTranslation } from './foreign.ts';
import { frontendsOf } from './frontends.ts';
import {
  byInterfaces,
  existing,
  isMartian,
  isOwnByWire,
  isPassed,
  isRefused,
  noCases,
  listener,
  unknownInterface,
  unseenListener,
  withoutOwned,
} from './packets.ts';
import { unreadParts } from '../observed/parts.ts';
import { observedNode, type ObservedNode } from '../observed/node.ts';
import type { TrackedFrontends } from './tracked.ts';
import { Settings } from './settings.ts';
import { observedProxy } from './versions.ts';

/** What a comparison in one family found. */
export interface FamilyComparison {
  readonly frontends: number;
  readonly sources: ReadonlySet<string>;
  readonly cases: number;
  readonly differing: readonly DifferingCase[];
  readonly gaps: ReadonlyMap<string, FoundGap>;
  readonly settings: Settings;
  /** Later packets of connections, and packets of none. */
  readonly connections: readonly ConnectionCase[];
  readonly tracked: TrackedFrontends;
}

interface FoundGap extends Pick<NotCovered, 'what' | 'why'> {
  readonly rule: LiveRule | undefined;
  readonly cases: number;
  /** False: no packet shows it. */
  readonly matters: boolean;
}

interface Subject {
  readonly view: BundleView;
  readonly node: NodeOf;
  readonly seen: Observation;
  readonly family: Family;
  readonly modes: { readonly observed: readonly Mode[]; readonly desired: Mode };
}

/** Compares every frontend of either side from every class of sources, in one family. @throws ReviewStopped */
export function compareFamily({ view, node: { name, file, profile }, seen, family, modes }: Subject): FamilyComparison {
  const own = factOf({ name, file, profile }, family, 'address');
  const whole = observedNode(seen, family, own === undefined ? [] : [own]);
  const observed = withoutOwned(whole);
  const lostBy = lostForwarding(whole, modes);
  const node: NodeOf = { name, file, profile, addresses: observed.addresses };
  const claims = claimsIn(view, node.file.profile, family);
  const isUnread = unreadParts(seen, family).length > 0;
  const destinations = isUnread ? [] : frontendsOf(view, node.file.profile, seen, observed);
  const programs = new DesiredPrograms(view, node, family);
  const tracer = new ObservedTracer(observed);
  const proxy = observedProxy(seen, family);
  const homes = homesOf(claims);
  const differing: DifferingCase[] = [];
  const gaps = new Map<string, FoundGap>();
  const settings = new Settings();
  const sources = new Set<string>();
  const closed: ClosedPacket[] = [];
  let cases = 0;
  const plainSources = sourcesOf(view, node, family, []).filter(({ network }) => network === undefined);
  const outside = plainSources.find((source) => source.class === 'outside');
  const others = othersOf(destinations, { outside, own, observed, tracer, programs });
  const [second] = unicastBeside(observed, own);
  const compareAt = (destination: Destination, address: string): void => {
    const claim = claims.get(placeOf(destination));
    const program = programs.of(destination, address);
    const to = { family, destination: address, port: destination.port, protocol: destination.protocol };
    const isOtherAddress = destination.kind === 'node-port' && address !== own;
    const toCase = (source: FlowSource): void => {
      if (!mayStart(source, homes, node.name) || isOwnByWire(source, observed)) return;
      const packet = packetOf(source, to, observed);
      cases++;
      sources.add(`${source.class} ${source.network ?? ''}`);
      const found = tracer.trace(packet);
      if (found.kind === 'not-covered') return addGaps(gaps, found.gaps);
      addGaps(gaps, lostBy(packet));
      const desired = desiredOutcome(program, observed, packet);
      const row = { nodes: { profile: node.file.profile, nodes: [node.name] }, family, source, destination, packet };
      const [one, other] = [visible(found.outcome), visible(desired)];
      const compared = { row, claim, observed: found.outcome, desired };
      if (isAlike(one, other, gaps) || isUnobservable(row, claim, one, other)) {
        if (mayBeClosed(source, to) && isRefused(one) && isRefused(other)) closed.push({ packet, program });
        return settings.note(compared, undefined);
      }
      const foreign = foreignOf(observed, packet, isPassed(one) && isRefused(other));
      if (foreign && destination.kind === 'elsewhere' && isPassed(other) && !isOfTranslation(foreign, one)) return;
      const unknown = unknownInterface(source, seen) ?? unseenListener(seen, row, one, other);
      if (unknown) return addGap(gaps, unknown, unknown !== listener);
      settings.note(compared, aspectOf(found.outcome, desired));
      differing.push({ ...compared, node, modes, isOtherAddress, proxy, foreign });
    };
    if (isOtherAddress) for (const source of plainSources) toCase(source);
    else forEachSource(view, node, family, program, tracer, observed, destination, address, toCase);
    // To a process of the node its own packets come from its first address as from the endpoint itself, which is masqueraded in any case.
    if (second !== undefined && own !== undefined && isEndpoint(claim, own)) toCase({ class: 'node', address: second });
  };
  for (const destination of destinations) {
    const address = addressOf(destination, family, own);
    if (address !== undefined) compareAt(destination, address);
    if (destination.kind === 'node-port') for (const other of others) compareAt(destination, other);
  }
  const { cases: connections, gaps: gapsOfConnections } = isUnread
    ? noCases
    : connectionCases(view, node, observed, seen, closed);
  addGaps(gaps, gapsOfConnections);
  cases += connections.length + gapsOfConnections.length;
  addGaps(gaps, unreadServers(observed, destinations));
  const tracked = { family, destinations, claims, addresses: observed.addresses, modes };
  return { frontends: destinations.length, sources, cases, differing, gaps, settings, connections, tracked };
}

/** Of a frontend that refuses them, one packet of a process of the node and one of a client outside. A datagram of UDP always begins a connection. */
const mayBeClosed = ({ class: kind, network }: FlowSource, { protocol }: Pick<Destination, 'protocol'>): boolean =>
  protocol === 'tcp' && network === undefined && (kind === 'node' || kind === 'outside');

/** Of the node: what is asked at its other addresses. */
interface AddressSample {
  readonly outside: FlowSource | undefined;
  readonly own: string | undefined;
  readonly observed: ObservedNode;
  readonly tracer: ObservedTracer;
  readonly programs: DesiredPrograms;
}

/** The other addresses of the node at which node ports are tried: the first node ports tell addresses apart. */
function othersOf(
  destinations: readonly Destination[],
  { outside, own, observed, tracer, programs }: AddressSample,
): readonly string[] {
  const samples = destinations.filter(({ kind }) => kind === 'node-port').slice(0, samplesMax);
  if (!outside || samples.length === 0) return [];
  const { family } = observed.tables;
  return otherAddresses(observed, own, (address) =>
    samples
      .map((sample) => {
        const packet = packetOf(outside, { ...sample, family, destination: address }, observed);
        const found = tracer.trace(packet);
        const wanted = desiredOutcome(programs.of(sample, address), observed, packet);
        return `${found.kind === 'traced' ? found.outcome.key : found.kind} ${wanted.key}`;
      })
      .join('\n'),
  );
}

/** Node ports by which addresses of the node are told apart, where it has many. */
const samplesMax = 3;

/** Traces from each class of sources once: rules that packets meet on the way may divide them further. */
function forEachSource(
  view: BundleView,
  node: NodeOf,
  family: Family,
  program: NodeProgram,
  tracer: ObservedTracer,
  observed: ObservedNode,
  { kind }: Destination,
  address: string,
  each: (source: FlowSource) => void,
): void {
  if (kind === 'localhost') {
    each({ class: 'node', address });
    return;
  }
  const done = new Set<string>();
  tracer.asked.networks.clear();
  tracer.asked.interfaces.clear();
  const isLoopback = address === loopback.ipv4 || address === loopback.ipv6;
  const { networks, interfaces } = tracer.asked;
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
      each(source);
    }
  }
}

class DesiredPrograms {
  readonly #known = new Map<string, NodeProgram>();
  readonly #of: (paths: readonly string[]) => NodeProgram;
  readonly #relevant: (key: string) => readonly string[];

  constructor(view: BundleView, node: NodeOf, family: Family) {
    this.#of = (paths) => programOf(view, node, family, paths);
    const index = view.index(node.file.profile, family);
    this.#relevant = (key) => index.relevant(key);
  }

  /** The program of the files that a packet can meet. */
  of(destination: Destination, address: string): NodeProgram {
    const paths = this.#relevant(keyOf(destination, address));
    const key = paths.join(' ');
    const known = this.#known.get(key);
    if (known) return known;
    // Destinations of one Service are adjacent in few orders; a few hundred programs are small.
    if (this.#known.size > 512) this.#known.clear();
    const program = this.#of(paths);
    this.#known.set(key, program);
    return program;
  }
}

type Claims = ReadonlyMap<string, Claim>;

function claimsIn(view: BundleView, profile: string, family: Family): Claims {
  // Health checks of mode ipvs have more protocols, which is a difference of that mode and nothing that a Service declares.
  const all = declaredIn(view, profile, family)
    .flatMap(claimsOf)
    .filter(({ role, destination }) => role !== 'health-check' || destination.protocol === 'tcp');
  return new Map(all.map((claim) => [placeOf(claim.destination), claim]));
}

/** The nodes of endpoints, by address; undefined for an endpoint whose slice names none. */
function homesOf(claims: Claims): ReadonlyMap<string, string | undefined> {
  const homes = new Map<string, string | undefined>();
  for (const { declared } of claims.values())
    for (const { text, node } of declared.notes.endpoints) {
      const address = addressOfEndpoint(text);
      homes.set(address, node ?? homes.get(address));
    }
  return homes;
}

/** Packets of an endpoint start on the node that its slice names; those of an endpoint that only the observed side has, anywhere. */
const mayStart = (
  { class: kind, address }: FlowSource,
  homes: ReadonlyMap<string, string | undefined>,
  node: string,
): boolean => kind !== 'endpoint' || !homes.has(address) || homes.get(address) === node;

/** Packets of the node itself have one of its addresses, masqueraded or not; loopback addresses must be. */
function isUnobservable(
  { source, destination }: Pick<FlowRow, 'source' | 'destination'>,
  claim: Claim | undefined,
  observed: FlowOutcome,
  desired: FlowOutcome,
): boolean {
  if (source.class !== 'node' || destination.kind === 'localhost' || claim?.role === 'cluster') return false;
  return isSameBut(observed, desired, () => true);
}

/** Equal for clients, also for one that comes again. @param gaps where that depends on the load */
function isAlike(one: FlowOutcome, other: FlowOutcome, gaps: Map<string, FoundGap>): boolean {
  if (!isSameOutcome(one, other)) return false;
  const choices = comparedChoices(one, other);
  if (choices === 'load') addGap(gaps, byLoad(one, other), false);
  return choices !== 'different';
}

/** Two schedulers of which one asks for the load of endpoints. */
const byLoad = ({ scheduler: one = 'random' }: FlowOutcome, { scheduler: other = 'random' }: FlowOutcome): Gap => ({
  rule: undefined,
  what: `schedulers ${one} (observed) and ${other}`,
  why: 'which endpoint a client finds depends on the load; shares are compared for an equal one',
});

function addGaps(gaps: Map<string, FoundGap>, list: readonly Gap[]): void {
  for (const gap of list) addGap(gaps, gap);
}

function addGap(
  gaps: Map<string, FoundGap>,
  { rule, why, what: named = 'rules on the way of a packet' }: Gap,
  matters = true,
): void {
  const what = rule?.text ?? named;
  const known = gaps.get(what);
  gaps.set(what, { what, why, rule, cases: (known?.cases ?? 0) + 1, matters });
}

/** Virtual servers at frontends in a form that neither kube-proxy nor Sluice uses: what they do with packets is not followed. */
function unreadServers(
  { unreadServers: keys, addresses }: ObservedNode,
  destinations: readonly Destination[],
): readonly Gap[] {
  const places = new Set(
    destinations.flatMap(({ kind, address, port, protocol }) =>
      (kind === 'node-port' ? addresses : [address]).map((one) => `${protocol} ${one} ${port}`),
    ),
  );
  const why = 'its scheduler, options or forwarding method are not read';
  return keys
    .filter((key) => places.has(placeOfServer(key) ?? ''))
    .map((key) => ({ rule: undefined, what: `virtual server ${key}`, why }));
}

/** The addresses of a node besides its own, without loopback and link-local ones. */
const unicastBeside = ({ addresses }: ObservedNode, own: string | undefined): readonly string[] =>
  addresses.filter((text) => parseAddress(text) && text !== own && !/^(?:127\.|::1$|fe[89ab])/.test(text));

/** Whether a cluster IP has an endpoint at an address. */
const isEndpoint = (claim: Claim | undefined, address: string): boolean =>
  claim?.role === 'cluster' && claim.declared.notes.endpoints.some(({ text }) => addressOfEndpoint(text) === address);

/** Up to so many each one is tried with each node port. Nodes have a few: of the bridge of pods, of tunnels, of a DNS cache. */
const allMax = 8;

/**
 * The addresses of a node besides its own, at which node ports may answer, too: of many, the first of each group that is treated alike.
 * Link-local ones are left out: a packet to one names an interface as well.
 * @param treatmentAt how packets to node ports there are treated, in words that are equal for addresses that are treated alike
 */
function otherAddresses(
  observed: ObservedNode,
  own: string | undefined,
  treatmentAt: (address: string) => string,
): readonly string[] {
  const others = unicastBeside(observed, own);
  if (others.length <= allMax) return others;
  const first = new Map<string, string>();
  for (const address of others) {
    const treatment = treatmentAt(address);
    if (!first.has(treatment)) first.set(treatment, address);
  }
  return [...first.values()];
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
