import type { Family, TableName } from '../family.ts';
import type { FamilyProgram } from '../link/program.ts';
import { passLive } from '../live/world.ts';
import { type HookName, pathOf, type TraceFlow, untouched } from '../packet/flow.ts';
import { type Outcome, type Packet, type RuleHit, TraceError } from '../packet/packet.ts';
import { perObject } from '../per-object.ts';
import { compareText } from '../problem.ts';
import { type Address, isLoopback, parseAddress } from '../rules/address.ts';
import { printEndpoint } from '../rules/rule.ts';
import { sortShort } from '../sort-short.ts';
import { type RealServer, type Scheduler, virtualKey, type VirtualServer } from '../virtual/values.ts';
import { NftTable } from './nftables.ts';
import { passProgram } from './program.ts';
import type { World } from './world.ts';

/** Schedulers that give each real server its share by weight; the others give equal shares to all with a weight above 0. */
const byWeight: ReadonlySet<Scheduler> = new Set(['wrr', 'wlc', 'lblc', 'lblcr', 'sed', 'nq', 'sh', 'mh']);

/**
 * Applies the kernel's virtual servers to a flow: returns one flow per real server, with its share; the flow itself when no virtual server
 * has its destination.
 *
 * Shares are those over many clients: least-connection schedulers without connections, and hashing schedulers, which choose by the
 * client's address, over all addresses. Without a real server of weight above 0 the kernel answers port unreachable (`ip_vs_leave` in
 * `net/netfilter/ipvs/ip_vs_core.c`).
 */
function schedule(flow: TraceFlow, packet: Packet, world: World): readonly TraceFlow[] {
  const { protocol, remembers } = packet;
  const key = virtualKey({ address: flow.destination.text, port: flow.port, protocol });
  const server = flow.translated ? undefined : world.ipvs?.virtualServers.get(key);
  if (!server) return [flow];
  const kept = server.persistence === undefined ? undefined : server.real.get(remembers ?? '');
  const open = kept ? [kept] : [...server.real.values()].filter(({ weight }) => weight > 0);
  if (open.length === 0) return [{ ...flow, verdict: 'reject', trail: { hit: hit(key, server), before: flow.trail } }];
  const shares = open.map(({ weight }) => (byWeight.has(server.scheduler) ? weight : 1));
  const sum = shares.reduce((all, share) => all + share, 0);
  return open.flatMap((real, index) => {
    const destination = parseAddress(real.address);
    if (!destination) return [];
    return {
      ...flow,
      destination,
      port: real.port,
      translated: true,
      by: { address: server.address, protocol, port: server.port },
      probability: (flow.probability * (shares[index] ?? 0)) / sum,
      trail: { hit: hit(key, server, real), before: flow.trail },
    };
  });
}

function hit(key: string, server: VirtualServer, real?: RealServer): RuleHit {
  const rule = real ? `${printEndpoint(real.address, real.port)} weight ${real.weight}` : 'no real server';
  return { table: 'ipvs', chain: key, rule: `${server.scheduler}: ${rule}` };
}

/**
 * Traces the first packet of a connection through the kernel's hooks: nat PREROUTING or OUTPUT, then filter INPUT, FORWARD or OUTPUT
 * by the destination after translation, then nat POSTROUTING. A packet from the node to itself comes back through `lo` and traverses
 * filter INPUT, but not nat again: the connection is translated by then. The base chains of mode nftables are in the same hooks.
 *
 * Only our rules are known. Foreign rules, routes and reverse path filters may change the outcome.
 * @returns every possible outcome once, most probable first
 * @throws TraceError for rules that it does not understand
 */
export function trace(program: FamilyProgram, packet: Packet, world: World): readonly Outcome[] {
  const isLocal = localTest(world);
  const switches = world.switches ? new Set(world.switches) : none;
  const { family, protocol, remembers } = packet;
  const { state = 'NEW' } = world;
  const isFirst = state === 'NEW';
  const start = firstFlow(packet);
  const all = { family, protocol, remembers, isLocal, original: start, sets: world.ipvs?.sets, switches, state };
  const nft = isFirst && world.nft ? new NftTable(world.nft, packet, start.destination, isLocal) : undefined;
  // On most nodes.
  const isTableAlone = !world.live && program.nat.jumps.length === 0 && program.filter.jumps.length === 0;
  const pass = (
    given: readonly TraceFlow[],
    table: TableName,
    name: HookName,
    incoming: string,
  ): readonly TraceFlow[] => {
    if (given.length === 0) return given;
    if (nft && isTableAlone) return passAlone(nft, given, table, name);
    const at = { ...all, table, name, in: incoming };
    const flows = world.live ? passLive(world.live, given, table, at) : given;
    const opened = flows.filter((flow) => !ended(flow)).map(open);
    const passed = nft ? opened.flatMap((flow) => passTable(nft, flow, table, name)) : opened;
    // The kernel translates a packet once in a hook.
    const isDone = (flow: TraceFlow): boolean =>
      ended(flow) || (table === 'nat' && (name === 'POSTROUTING' ? flow.masquerade : flow.translated));
    const [done, rest] = nft ? [passed.filter(isDone), passed.filter((one) => !isDone(one))] : [[], passed];
    const left = isFirst || table === 'filter' ? passProgram(program[table], rest, at) : rest;
    return [...flows.filter(ended), ...done, ...left];
  };
  const balance = (flows: readonly TraceFlow[]): readonly TraceFlow[] =>
    world.ipvs && isFirst ? flows.flatMap((flow) => (ended(flow) ? [flow] : schedule(flow, packet, world))) : flows;
  const node: TracingNode = { pass, isLocal, balance };
  const done = packet.in === undefined ? fromNode([start], node) : fromOutside([start], packet.in, node);
  return merge(done);
}

type Pass = (flows: readonly TraceFlow[], table: TableName, name: HookName, incoming: string) => readonly TraceFlow[];

/** The node that flows pass through: its hooks, and its virtual servers. */
interface TracingNode {
  readonly pass: Pass;
  readonly isLocal: (address: Address) => boolean;
  readonly balance: (flows: readonly TraceFlow[]) => readonly TraceFlow[];
}

const none: ReadonlySet<string> = new Set();

function passTable(nft: NftTable, flow: TraceFlow, table: TableName, hook: HookName): readonly TraceFlow[] {
  if (table === 'filter') return [nft.unserved(flow)];
  if (hook === 'PREROUTING' || hook === 'OUTPUT') return nft.translated(flow);
  return [hook === 'POSTROUTING' ? nft.masqueraded(flow) : flow];
}

/** Flows through the table of mode nftables where nothing else is in the hook. Only translation makes several of one. */
function passAlone(nft: NftTable, flows: readonly TraceFlow[], table: TableName, hook: HookName): readonly TraceFlow[] {
  const [first] = flows;
  if (first && flows.length === 1) return ended(first) ? flows : passTable(nft, open(first), table, hook);
  if (table === 'filter') return flows.map((flow) => (ended(flow) ? flow : nft.unserved(open(flow))));
  if (hook === 'POSTROUTING') return flows.map((flow) => (ended(flow) ? flow : nft.masqueraded(open(flow))));
  return flows.flatMap((flow) => (ended(flow) ? flow : passTable(nft, open(flow), table, hook)));
}

/** A flow without the verdict of the chains before. */
const open = (flow: TraceFlow): TraceFlow => (flow.verdict === undefined ? flow : { ...flow, verdict: undefined });

const ended = ({ verdict }: TraceFlow): boolean => verdict === 'drop' || verdict === 'reject';

/**
 * Packets from virtual servers traverse OUTPUT and POSTROUTING, never FORWARD; those to the node itself have arrived
 * (`ip_vs_nat_xmit` in `net/netfilter/ipvs/ip_vs_xmit.c`). nat OUTPUT has no effect on them, as their destination is chosen.
 */
function fromOutside(
  flows: readonly TraceFlow[],
  incoming: string,
  { pass, isLocal, balance }: TracingNode,
): readonly TraceFlow[] {
  const arrived = pass(flows, 'nat', 'PREROUTING', incoming);
  const isHere = ({ destination }: TraceFlow): boolean => isLocal(destination);
  const forward = (some: readonly TraceFlow[]): readonly TraceFlow[] =>
    pass(pass(some, 'filter', 'FORWARD', incoming), 'nat', 'POSTROUTING', '');
  if (!arrived.some(isHere)) return forward(arrived);
  const received = balance(pass(arrived.filter(isHere), 'filter', 'INPUT', incoming));
  const isForwarded = ({ by, destination }: TraceFlow): boolean => by !== undefined && !isLocal(destination);
  return [
    ...received.filter((flow) => !isForwarded(flow)),
    ...pass(pass(received.filter(isForwarded), 'filter', 'OUTPUT', ''), 'nat', 'POSTROUTING', ''),
    ...forward(arrived.filter((flow) => !isHere(flow))),
  ];
}

/** Virtual servers are between the nat and the filter table of OUTPUT (`ip_vs_ops` in `ip_vs_core.c`). */
function fromNode(flows: readonly TraceFlow[], { pass, isLocal, balance }: TracingNode): readonly TraceFlow[] {
  const sent = pass(balance(pass(flows, 'nat', 'OUTPUT', '')), 'filter', 'OUTPUT', '');
  const left = pass(sent, 'nat', 'POSTROUTING', '');
  if (!left.some(({ destination }) => isLocal(destination))) return left;
  return left.flatMap((flow) => (isLocal(flow.destination) ? pass([flow], 'filter', 'INPUT', 'lo') : [flow]));
}

function firstFlow(packet: Packet): TraceFlow {
  return {
    source: addressOf(packet.source, packet.family),
    destination: addressOf(packet.destination, packet.family),
    port: packet.port,
    ...untouched,
    remembered: packet.remembers ?? '',
  };
}

function addressOf(text: string, family: Family): Address {
  const address = parseAddress(text);
  if (address?.family === family) return address;
  throw new TraceError(`Cannot trace a packet: ${JSON.stringify(text)} is not an ${family} address`);
}

/** Whether an address is one of the node. */
export function localTest({ ipvs, localAddresses }: World): (address: Address) => boolean {
  const own = canonicalOf(localAddresses);
  if (!ipvs) return (address) => own.has(address.text) || isLoopback(address);
  const bound = new Set([...ipvs.addresses.ipv4, ...ipvs.addresses.ipv6].map((text) => parseAddress(text)?.text));
  return (address) => own.has(address.text) || bound.has(address.text) || isLoopback(address);
}

/** Read once for all packets of a node. */
const canonicalOf = perObject(
  (addresses: readonly string[]): ReadonlySet<string | undefined> =>
    new Set(addresses.map((text) => parseAddress(text)?.text)),
);

function outcomeOf(flow: TraceFlow): Outcome {
  const { probability, masquerade } = flow;
  const path = pathOf(flow.trail);
  if (flow.verdict === 'drop' || flow.verdict === 'reject') {
    return { verdict: flow.verdict, masquerade: false, probability, path };
  }
  if (!flow.translated) return { verdict: flow.accepted ? 'accept' : 'pass', masquerade, probability, path };
  return { verdict: 'dnat', to: targetOf(flow), masquerade, probability, path };
}

function targetOf({ destination, port, printed }: TraceFlow): string {
  const isPrinted = printed !== undefined && printed.destination === destination && printed.port === port;
  return isPrinted ? printed.text : printEndpoint(destination.text, port);
}

/** Each outcome once, the most probable first: flows with the same one add up. */
function merge(flows: readonly TraceFlow[]): readonly Outcome[] {
  const outcomes = flows.map(outcomeOf);
  if (outcomes.length < 2) return outcomes;
  const merged: Outcome[] = [];
  for (const outcome of sortShort(outcomes, compareOutcomes)) {
    const last = merged.at(-1);
    if (last === undefined || compareOutcomes(last, outcome) !== 0) merged.push(outcome);
    else merged[merged.length - 1] = { ...last, probability: last.probability + outcome.probability };
  }
  // Sorting is stable.
  return sortShort(merged, (a, b) => b.probability - a.probability);
}

const compareOutcomes = (a: Outcome, b: Outcome): number =>
  compareText(labelOf(a), labelOf(b)) || compareText(a.to ?? '', b.to ?? '');

const labels = {
  dnat: 'masquerade dnat',
  accept: 'masquerade accept',
  pass: 'masquerade pass',
  reject: 'masquerade reject',
  drop: 'masquerade drop',
} as const satisfies Record<Outcome['verdict'], string>;

function labelOf({ masquerade, verdict }: Outcome): string {
  return masquerade ? labels[verdict] : verdict;
}

/**
 * Outcomes in one line, without probabilities: `dnat 10.244.1.5:8080 | 10.244.2.6:8080`, `masquerade dnat …`, `reject`, `drop`,
 * `pass`, separated by commas. Sorted, so that equal sets of outcomes give equal texts.
 */
export function summarise(outcomes: readonly Outcome[]): string {
  const kinds = [...Map.groupBy(outcomes, labelOf)].toSorted(([a], [b]) => compareText(a, b));
  const lines = kinds.map(([label, group]) => {
    const targets = group.flatMap((outcome) => outcome.to ?? []).toSorted(compareText);
    return targets.length === 0 ? label : `${label} ${targets.join(' | ')}`;
  });
  return lines.join(', ');
}
