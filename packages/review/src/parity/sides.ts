import { isRefused } from './packets.ts';
import type { Observation } from '@sluice/bundle';
import { addressOfEndpoint, type Family, forwardAccepts, type Packet, parseAddress } from '@sluice/netfilter';
import { factOf, type NodeOf } from '../bundle/node.ts';
import type { BundleView } from '../bundle/view.ts';
import { keyOf } from '../flows/destinations.ts';
import type { Destination, FlowSource } from '../flows/flow.ts';
import type { NodeProgram } from '../flows/planes/plane.ts';
import { programOf } from '../flows/program.ts';
import { type ObservedNode, observedNode } from '../observed/node.ts';
import { type DeclaredFrontend, frontendsByPlace, declaredFrontends, declaredIn } from '../prove/declared.ts';
import { desiredOutcome, ObservedTracer, packetOf } from './cases.ts';
import type { ComparedModes, ObservedProxy } from './differing-case.ts';
import type { Gap } from './gaps.ts';
import { observedProxy } from './versions.ts';

/** What is compared: an observed node with its part of a bundle. */
export interface ParitySubject {
  readonly view: BundleView;
  readonly node: NodeOf;
  readonly seen: Observation;
  readonly family: Family;
  readonly modes: ComparedModes;
}

/** Both sides in one family. */
export interface Sides extends ParitySubject {
  /** The address of the Node. */
  readonly own: string | undefined;
  /** Without the rules of known owners that stay: both sides have them. */
  readonly observed: ObservedNode;
  readonly tracer: ObservedTracer;
  readonly proxy: ObservedProxy;
  /** For a packet: that a move takes its forwarding away. */
  readonly lostBy: (packet: Packet) => readonly Gap[];
  /** The program of the files of the bundle that a packet can meet. */
  readonly programAt: (destination: Destination, address: string) => NodeProgram;
  /** What Services declare, by place. */
  readonly declaredAt: ReadonlyMap<string, DeclaredFrontend>;
  /** The nodes of endpoints, by address; undefined for an endpoint whose slice names none. */
  readonly endpointNodes: ReadonlyMap<string, string | undefined>;
}

/** @throws Stopped for a file that nodes would refuse */
export function sidesOf(subject: ParitySubject): Sides {
  const { view, seen, family, modes } = subject;
  const { name, file, profile } = subject.node;
  const own = factOf({ name, file, profile }, family, 'address');
  const whole = observedNode(seen, family, own === undefined ? [] : [own]);
  const observed = { ...whole, tables: whole.tables.withoutOwned() };
  const node = { name, file, profile, addresses: observed.addresses };
  // Health checks of mode ipvs have more protocols, which is a difference of that mode and nothing that a Service declares.
  const declaredAt = frontendsByPlace(
    declaredIn(view, file.profile, family)
      .flatMap(declaredFrontends)
      .filter(({ role, destination }) => role !== 'health-check' || destination.protocol === 'tcp'),
  );
  return {
    ...subject,
    node,
    own,
    observed,
    tracer: new ObservedTracer(observed),
    proxy: observedProxy(seen, family),
    lostBy: lostForwarding(whole, modes),
    programAt: desiredPrograms(view, node, family),
    declaredAt,
    endpointNodes: endpointNodesOf(declaredAt.values()),
  };
}

/** Programs by the files that they are of. Destinations of one Service are adjacent in few orders; a few hundred programs are small. */
const programsMax = 512;

function desiredPrograms(view: BundleView, node: NodeOf, family: Family): Sides['programAt'] {
  const known = new Map<string, NodeProgram>();
  const index = view.index(node.file.profile, family);
  return (destination, address) => {
    const paths = index.relevant(keyOf(destination, address));
    const key = paths.join(' ');
    const found = known.get(key);
    if (found) return found;
    if (known.size > programsMax) known.clear();
    const program = programOf(view, node, family, paths);
    known.set(key, program);
    return program;
  };
}

function endpointNodesOf(declaredAt: Iterable<DeclaredFrontend>): Sides['endpointNodes'] {
  const nodes = new Map<string, string | undefined>();
  for (const { declared } of declaredAt)
    for (const { text, node } of declared.notes.endpoints) {
      const address = addressOfEndpoint(text);
      nodes.set(address, node ?? nodes.get(address));
    }
  return nodes;
}

/** The addresses of a node besides its own, without loopback ones, and link-local ones: a packet to one names an interface as well. */
export const otherUnicast = ({ observed, own }: Sides): readonly string[] =>
  observed.addresses.filter((text) => parseAddress(text) && text !== own && !/^(?:127\.|::1$|fe[89ab])/.test(text));

/** Up to so many each one is tried with each node port. Nodes have a few: of the bridge of pods, of tunnels, of a DNS cache. */
const addressesMax = 8;

/** Node ports by which addresses of the node are distinguished, where it has many. */
const samplesMax = 3;

/**
 * The addresses of a node besides its own, at which node ports may answer, too: of many, the first of each group at which the first node
 * ports treat a client outside alike.
 */
export function otherAddresses(
  sides: Sides,
  destinations: readonly Destination[],
  outside: FlowSource | undefined,
): readonly string[] {
  const { family, observed, tracer, programAt } = sides;
  const samples = destinations.filter(({ kind }) => kind === 'node-port').slice(0, samplesMax);
  if (!outside || samples.length === 0) return [];
  const others = otherUnicast(sides);
  if (others.length <= addressesMax) return others;
  const treatmentAt = (destination: string): string =>
    samples
      .map((sample) => {
        const packet = packetOf(outside, { ...sample, family, destination }, observed);
        const found = tracer.trace(packet);
        const desired = desiredOutcome(programAt(sample, destination), observed, packet);
        return `${found.kind === 'traced' ? found.outcome.key : found.kind} ${desired.key}`;
      })
      .join('\n');
  return [...Map.groupBy(others, treatmentAt).values()].flatMap((alike) => alike.slice(0, 1));
}

/**
 * What a move to mode nftables takes from forwarded packets: no table of nftables can accept what another one refuses, so that a policy DROP
 * or a rule of a firewall meets packets that kube-proxy's chain let through before it.
 * @param node with the rules of all programs
 * @returns for a packet and what the node does with it: that it would then be refused
 */
export function lostForwarding(node: ObservedNode, modes: ComparedModes): (packet: Packet) => readonly Gap[] {
  const later = node.tables.withoutForwardAccepts();
  if (!later || modes.desired !== 'nftables' || modes.observed.includes('nftables')) return () => [];
  const today = new ObservedTracer(node);
  const then = new ObservedTracer({ ...node, tables: later });
  return (packet) => {
    const other = then.trace(packet);
    // Few are refused: the rest needs no second trace.
    if (other.kind !== 'traced' || !isRefused(other.outcome)) return [];
    const one = today.trace(packet);
    return one.kind === 'traced' && !isRefused(one.outcome) ? [gap] : [];
  };
}

const gap: Gap = {
  rule: undefined,
  what: `chain ${forwardAccepts}`,
  why: 'only it lets these packets through FORWARD, where the policy or a rule of another program refuses them, and mode nftables has nothing in its place: accept packets to pods there before the move, as most network plugins do',
};
