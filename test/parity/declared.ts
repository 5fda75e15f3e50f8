import { readFileSync } from 'node:fs';
import { type BundleFiles, isProblem, type Observation, readObservation } from '@sluice/bundle';
import { addressOfEndpoint, families, type Family } from '@sluice/netfilter';
import { readTree } from '../../packages/renderer/src/load/tree.ts';
import { factOf, nodeOf } from '../../packages/review/src/bundle/node.ts';
import { type BundleView, viewOf } from '../../packages/review/src/bundle/view.ts';
import type { Branch, FlowOutcome } from '../../packages/review/src/flows/flow.ts';
import { observedNode } from '../../packages/review/src/observed/node.ts';
import { ObservedTracer, packetOf } from '../../packages/review/src/parity/cases.ts';
import { visible } from '../../packages/review/src/parity/family.ts';
import { declaredIn } from '../../packages/review/src/prove/declared.ts';
import { type DeclaredFlow, declaredFlows, isMet } from '../../packages/review/src/prove/declared-flows.ts';
import { outcomeText, sourceText } from '../../packages/review/src/report/words.ts';
import { nodeName } from './clusters.ts';
import { wordsOf } from './outcomes.ts';
import type { Probe, ProbeOutcome, WiredNode } from './wire.ts';

/** What `sluice prove` declares of a node's flows, compared with what the real kube-proxy does with them: by its rules, and by packets. */

const profile = 'default';

/** The flows of the node in one family. */
interface NodeFlows {
  readonly flows: readonly DeclaredFlow[];
  /**
   * Endpoints of which some slice names no node. In mode nftables each node takes itself for theirs, and kube-proxy none: there they do
   * not reach themselves through their Service.
   */
  readonly homeless: ReadonlySet<string>;
}

function flowsOfNode(bundle: string, family: Family): NodeFlows {
  const view = viewAt(bundle);
  const flows = [...declaredFlows(view, profile, family)].filter(({ nodes }) => nodes.nodes[0] === nodeName);
  const endpoints = view.profiles.get(profile)?.mode === 'nftables' ? declaredIn(view, profile, family) : [];
  const homeless = endpoints
    .flatMap(({ notes }) => notes.endpoints)
    .flatMap(({ text, node }) => (node === undefined ? [addressOfEndpoint(text)] : []));
  return { flows, homeless: new Set(homeless) };
}

const viewAt = (bundle: string): BundleView => viewOf(readTree(bundle) as BundleFiles);

/** The flows that were compared, by the kind of what is declared, and those that are not treated so. */
export interface DeclaredCompared {
  readonly kinds: ReadonlyMap<string, number>;
  readonly faults: readonly string[];
}

/** Traces every declared flow of the node through observed rules. @param file of `sluiced observe` */
export function comparedWithRules(bundle: string, file: string): DeclaredCompared {
  const seen = observationAt(file);
  const node = nodeOf(viewAt(bundle), nodeName);
  const kinds = new Map<string, number>();
  const faults: string[] = [];
  for (const family of families) {
    const own = factOf(node, family, 'address');
    const observed = observedNode(seen, family, own === undefined ? [] : [own]);
    const tracer = new ObservedTracer(observed);
    const { flows, homeless } = flowsOfNode(bundle, family);
    for (const flow of flows) {
      const { source: _source, in: _in, ...to } = flow.packet;
      const found = tracer.trace(packetOf(flow.source, to, observed));
      const kind = kindOf(flow);
      kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
      if (found.kind === 'not-covered') faults.push(`${titleOf(flow)}: ${found.gaps.map(({ why }) => why).join(', ')}`);
      else if (!isMetBy(flow, found.outcome, homeless.has(flow.source.address)))
        faults.push(
          `${titleOf(flow)}\n  declared:   ${declaredText(flow)}\n  kube-proxy: ${outcomeText(found.outcome)}`,
        );
    }
  }
  return { kinds, faults };
}

function observationAt(file: string): Observation {
  const seen = readObservation(file, readFileSync(file, 'utf8'));
  if (isProblem(seen)) throw new Error(seen.message);
  return seen;
}

/** Packets of a flow: an endpoint of four is missed by one in 50. */
const tries = 14;

/** Sends packets of some declared flows. @param count of flows, drawn at random @returns those that are treated in another way */
export async function comparedWithPackets(
  bundle: string,
  node: WiredNode,
  count: number,
  random: () => number,
): Promise<DeclaredCompared> {
  const all = families.flatMap((family) => {
    const { flows, homeless } = flowsOfNode(bundle, family);
    return flows.filter((flow) => canBeSent(flow) && !homeless.has(flow.source.address));
  });
  const chosen = Array.from({ length: Math.min(count, all.length) }, () => {
    const [flow] = all.splice(Math.floor(random() * all.length), 1);
    return flow!;
  });
  const kinds = new Map<string, number>();
  for (const flow of chosen) kinds.set(kindOf(flow), (kinds.get(kindOf(flow)) ?? 0) + 1);
  const first = await wrongOf(chosen, node);
  // A packet that a busy machine loses counts as dropped: what only that tells is asked once more, and waited for.
  const [lost, others] = [first.filter(isLost), first.filter((one) => !isLost(one))];
  const again = await wrongOf(
    lost.map(({ flow }) => flow),
    node,
    quietAgainMs,
  );
  return { kinds, faults: [...others, ...again].map(({ flow, words }) => printFault(flow, words)) };
}

/** A flow with a packet whose outcome is not declared, in words. */
interface WrongFlow {
  readonly flow: DeclaredFlow;
  readonly words: string;
}

const isLost = ({ words }: WrongFlow): boolean => words === 'drop';

/** The silence after which a packet counts as dropped where that was wrong before. */
const quietAgainMs = 3_000;

/** Sends packets of flows. @returns those with another outcome than is declared; of its outcomes one that is not `drop`, if there is any */
async function wrongOf(
  flows: readonly DeclaredFlow[],
  node: WiredNode,
  quietMs?: number,
): Promise<readonly WrongFlow[]> {
  const probes = flows.map((flow, at) => probesOf(flow, firstPort + at * tries));
  // Those before had the same ports of clients.
  await node.forgetConnections();
  const outcomes = await node.send(probes.flat(), quietMs);
  return flows.flatMap((flow, at): readonly WrongFlow[] => {
    const own = probes[at]!;
    const wrong = outcomes
      .slice(at * tries, (at + 1) * tries)
      .flatMap((outcome, n) => (isAnswer(flow, own[n]!, outcome) ? [] : [wordsOf(own[n]!, outcome)]));
    const words = wrong.find((one) => one !== 'drop') ?? wrong[0];
    return words === undefined ? [] : [{ flow, words }];
  });
}

const printFault = (flow: DeclaredFlow, words: string): string =>
  `${titleOf(flow)}\n  declared: ${declaredText(flow)}\n  packet:   ${words}`;

/** Ports of clients below are those of other questions. */
const firstPort = 20_000;

/**
 * Packets from or to loopback addresses do not come in by a wire: the kernel drops them before any rule. With affinity an endpoint remembers
 * a client for all frontends of its Service, so that answers depend on each other.
 */
function canBeSent({ source, packet, expected }: DeclaredFlow): boolean {
  if (expected.kind === 'endpoints' && expected.affinity !== undefined) return false;
  const isLoopback = (address: string): boolean => address.startsWith('127.') || address === '::1';
  return source.in === undefined || !(isLoopback(packet.source) || isLoopback(packet.destination));
}

function probesOf({ packet }: DeclaredFlow, from: number): readonly Probe[] {
  const { source, destination: target, port, protocol, in: via } = packet;
  return Array.from({ length: tries }, (_, n) => ({
    via: via === 'pod0' || via === 'eth0' ? via : '',
    protocol,
    source,
    sport: from + n,
    target,
    port,
  }));
}

/** Whether the outcome of a packet is one of those that are declared. */
function isAnswer({ expected, source, packet }: DeclaredFlow, probe: Probe, { kind, ...seen }: ProbeOutcome): boolean {
  if (expected.kind === 'reject' || expected.kind === 'drop') return kind === expected.kind;
  if (kind !== 'forward' && kind !== 'local') return false;
  const isMasked = seen.source !== probe.source;
  // Packets of the node have one of its addresses, masqueraded or not.
  const isOfNode = source.class === 'node';
  if (expected.kind !== 'endpoints')
    return seen.target === packet.destination && seen.port === packet.port && (isOfNode || !isMasked);
  return expected.branches.some(({ to = '', masquerade }) => {
    const isIt = addressOfEndpoint(to) === seen.target && to.endsWith(`:${seen.port}`);
    return isIt && (isOfNode || masquerade === isMasked);
  });
}

/** Whether an outcome is the declared one, but for what no packet shows. @param isHomeless how the source reaches itself does not count */
function isMetBy({ expected, source }: DeclaredFlow, outcome: FlowOutcome, isHomeless: boolean): boolean {
  const found = visible(outcome);
  if (expected.kind === 'accept') return isMet({ kind: 'pass' }, found);
  if (expected.kind !== 'endpoints') return isMet(expected, found);
  const { affinity, ...single } = expected;
  const wanted = affinity === undefined || expected.branches.length < 2 ? single : expected;
  if (!isHomeless) return isMet(wanted, found);
  const unmasked = (branches: readonly Branch[]): readonly Branch[] =>
    branches.map((one) => (addressOfEndpoint(one.to ?? '') === source.address ? { ...one, masquerade: false } : one));
  return isMet({ ...wanted, branches: unmasked(wanted.branches) }, { ...found, branches: unmasked(found.branches) });
}

function kindOf({ expected }: DeclaredFlow): string {
  if (expected.kind !== 'endpoints') return expected.kind;
  const masked = expected.branches.filter(({ masquerade }) => masquerade).length;
  if (masked === 0) return 'endpoints';
  return masked === expected.branches.length ? 'endpoints, masqueraded' : 'endpoints, some masqueraded';
}

const titleOf = ({ source, destination, packet }: DeclaredFlow): string =>
  `${sourceText(source)} ${packet.source} → ${destination.services.join()} ${destination.kind} ${packet.destination} ${packet.port}/${packet.protocol}`;

const declaredText = ({ expected }: DeclaredFlow): string =>
  expected.kind === 'endpoints' ? outcomeText(expected) : expected.kind;
