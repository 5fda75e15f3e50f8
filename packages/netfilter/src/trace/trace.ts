import type { FamilyProgram } from '../link/program.ts';
import { perObject } from '../per-object.ts';
import { compareText } from '../problem.ts';
import type { Family, TableName } from '../family.ts';
import { type Address, isLoopback, parseAddress } from '../rules/address.ts';
import { printEndpoint } from '../rules/rule.ts';
import { type TraceFlow, type HookName, pathOf } from './flow.ts';
import { type Outcome, type Packet, TraceError } from './packet.ts';
import type { World } from './world.ts';
import { schedule } from './ipvs.ts';
import { passLive } from '../live/world.ts';
import { NftTable } from './nftables.ts';
import { walkHook } from './walk.ts';

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
  const switches = new Set(world.switches);
  const sets = world.ipvs?.sets;
  const { family, protocol, remembers } = packet;
  const start = firstFlow(packet);
  const nft = world.nft && new NftTable(world.nft, packet, start.destination, isLocal);
  // On most nodes.
  const isTableAlone = !world.live && program.nat.jumps.length === 0 && program.filter.jumps.length === 0;
  const live = (
    flows: readonly TraceFlow[],
    table: TableName,
    name: HookName,
    incoming: string,
  ): readonly TraceFlow[] =>
    world.live
      ? passLive(world.live, flows, table, {
          name,
          family,
          protocol,
          remembers,
          isLocal,
          in: incoming,
          original: start,
        })
      : flows;
  const pass = (
    given: readonly TraceFlow[],
    table: TableName,
    name: HookName,
    incoming: string,
  ): readonly TraceFlow[] => {
    if (given.length === 0) return given;
    if (nft && isTableAlone)
      return given.flatMap((flow) => (ended(flow) ? flow : passTable(nft, open(flow), table, name)));
    const flows = live(given, table, name, incoming);
    const opened = flows.flatMap((flow) => (ended(flow) ? [] : [open(flow)]));
    const passed = nft ? opened.flatMap((flow) => passTable(nft, flow, table, name)) : opened;
    // The kernel translates a packet once in a hook.
    const isDone = (flow: TraceFlow): boolean =>
      nft !== undefined && table === 'nat' && (name === 'POSTROUTING' ? flow.masquerade : flow.translated);
    const [done, rest] = [
      passed.filter((one) => ended(one) || isDone(one)),
      passed.filter((one) => !ended(one) && !isDone(one)),
    ];
    const hook = { table, name, family, protocol, remembers, isLocal, sets, switches, in: incoming };
    return [...flows.filter(ended), ...done, ...walkHook(program[table], rest, hook)];
  };
  const balance = (flow: TraceFlow): readonly TraceFlow[] => (ended(flow) ? [flow] : schedule(flow, packet, world));
  const node: TracingNode = { pass, isLocal, balance };
  const done = packet.in === undefined ? fromNode([start], node) : fromOutside([start], packet.in, node);
  return merge(done);
}

type Pass = (flows: readonly TraceFlow[], table: TableName, name: HookName, incoming: string) => readonly TraceFlow[];

/** The node that flows pass through: its hooks, and its virtual servers. */
interface TracingNode {
  readonly pass: Pass;
  readonly isLocal: (address: Address) => boolean;
  readonly balance: (flow: TraceFlow) => readonly TraceFlow[];
}

const passTable = (nft: NftTable, flow: TraceFlow, table: TableName, hook: HookName): readonly TraceFlow[] =>
  table === 'nat' ? nft.pass(flow, hook) : [nft.unserved(flow)];

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
  const received = pass(arrived.filter(isHere), 'filter', 'INPUT', incoming).flatMap(balance);
  const isForwarded = ({ by, destination }: TraceFlow): boolean => by !== undefined && !isLocal(destination);
  const beyond = arrived.filter((flow) => !isHere(flow));
  return [
    ...received.filter((flow) => !isForwarded(flow)),
    ...pass(pass(received.filter(isForwarded), 'filter', 'OUTPUT', ''), 'nat', 'POSTROUTING', ''),
    ...pass(pass(beyond, 'filter', 'FORWARD', incoming), 'nat', 'POSTROUTING', ''),
  ];
}

/** Virtual servers are between the nat and the filter table of OUTPUT (`ip_vs_ops` in `ip_vs_core.c`). */
function fromNode(flows: readonly TraceFlow[], { pass, isLocal, balance }: TracingNode): readonly TraceFlow[] {
  const sent = pass(pass(flows, 'nat', 'OUTPUT', '').flatMap(balance), 'filter', 'OUTPUT', '');
  return pass(sent, 'nat', 'POSTROUTING', '').flatMap((flow) =>
    isLocal(flow.destination) ? pass([flow], 'filter', 'INPUT', 'lo') : [flow],
  );
}

function firstFlow(packet: Packet): TraceFlow {
  return {
    source: addressOf(packet.source, packet.family),
    destination: addressOf(packet.destination, packet.family),
    port: packet.port,
    mark: 0,
    priority: 'none',
    remembered: packet.remembers ?? '',
    translated: false,
    untracked: false,
    masquerade: false,
    by: undefined,
    verdict: undefined,
    accepted: false,
    probability: 1,
    trail: undefined,
  };
}

function addressOf(text: string, family: Family): Address {
  const address = parseAddress(text);
  if (address?.family === family) return address;
  throw new TraceError(`Cannot trace a packet: ${JSON.stringify(text)} is not an ${family} address`);
}

function localTest({ ipvs, localAddresses }: World): (address: Address) => boolean {
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
  return { verdict: 'dnat', to: printEndpoint(flow.destination.text, flow.port), masquerade, probability, path };
}

function merge(flows: readonly TraceFlow[]): readonly Outcome[] {
  if (flows.length === 1) return flows.map(outcomeOf);
  const merged = new Map<string, Outcome>();
  for (const outcome of flows.map(outcomeOf)) {
    const key = `${labelOf(outcome)} ${outcome.to ?? ''}`;
    const same = merged.get(key);
    merged.set(key, same ? { ...same, probability: same.probability + outcome.probability } : outcome);
  }
  return [...merged]
    .toSorted(([a, x], [b, y]) => y.probability - x.probability || compareText(a, b))
    .map(([, one]) => one);
}

function labelOf(outcome: Outcome): string {
  return `${outcome.masquerade ? 'masquerade ' : ''}${outcome.verdict}`;
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
