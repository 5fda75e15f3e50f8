import {
  chainOf,
  type Family,
  type FamilyProgram,
  iptablesTable,
  Layered,
  type LiveHook,
  type LiveRule,
  type NamedFrontend,
  type Packet,
  localTest,
  parseAddress,
  summarise,
  type TableProgram,
  targetOf,
  trace,
  TraceError,
  type TraceFlow,
  traceNotes,
  untouched,
  type World,
} from '@sluice/netfilter';
import { limits } from '../../limits.ts';
import { type NodeState, type Observed, tableOf } from '../../ports/node-state.ts';
import { type EarlyRule, earlyRules, isOfKubeProxy } from './early-rules.ts';
import { frontendsOf } from './frontends.ts';

/** The effect of foreign rules before our jumps on packets of Services. */
export interface OrderFindings {
  /** Rules that decide about packets of Services otherwise than our rules would. */
  readonly taking: readonly TakingRule[];
  /** Rules whose effect could not be determined. */
  readonly unread: readonly UnreadRule[];
}

export interface TakingRule extends EarlyRule {
  /** Sorted; at most `limits.orderServicesMax`. */
  readonly services: readonly string[];
}

interface UnreadRule extends EarlyRule {
  readonly because: string;
}

/**
 * Judges the foreign rules before our jumps with the tracer. Packets that a rule may match are traced twice: with the rule before our
 * jumps and after them. If the result is the same, the order does no harm. A rule that drops packets is a firewall, and not reported.
 *
 * Bounded, because the daemon does nothing else meanwhile: only some of the frontends that a rule may match are traced, with a limited
 * number of packets (`limits.order…`).
 * @param ours our part of the tables
 * @param addresses of this node
 */
export function judgeOrder(
  observed: Observed,
  ours: NodeState,
  addresses: Readonly<Record<Family, readonly string[]>>,
): OrderFindings {
  const early = earlyRules(observed, ours);
  const taking: TakingRule[] = [];
  const unread: UnreadRule[] = [];
  const places: { [F in Family]?: readonly FrontendPlace[] } = {};
  // Each rule has a budget of its own, so that an expensive one does not hide others.
  const tracesMax = Math.ceil(limits.orderTracesMax / Math.min(Math.max(early.length, 1), limits.orderRulesMax));
  for (const rule of early.slice(0, limits.orderRulesMax)) {
    if (isOfKubeProxy(rule)) {
      taking.push({ ...rule, services: ['all Services of this kube-proxy'] });
      continue;
    }
    try {
      const { family } = rule;
      const own = addresses[family].find((one) => one !== '127.0.0.1' && one !== '::1');
      const all = (places[family] ??= frontendsOf(ours, family).flatMap((one) => placeOf(one, family, own) ?? []));
      const world: World = { localAddresses: addresses[family], ipvs: ours.ipvs };
      const services = servicesTaken(rule, { observed, ours, all, own, world, tracesMax });
      if (services.length > 0) taking.push({ ...rule, services });
    } catch (error) {
      if (!(error instanceof TraceError)) throw error;
      unread.push({ ...rule, because: error.message });
    }
  }
  const [next] = early.slice(limits.orderRulesMax);
  if (next) unread.push({ ...next, because: `only the first ${limits.orderRulesMax} foreign rules are checked` });
  return { taking, unread };
}

interface Judging {
  readonly observed: Observed;
  readonly ours: NodeState;
  readonly all: readonly FrontendPlace[];
  /** An address of the node. */
  readonly own: string | undefined;
  readonly world: World;
  /** How many packets may be traced through our rules. */
  readonly tracesMax: number;
}

function servicesTaken(early: EarlyRule, { observed, ours, all, own, world, tracesMax }: Judging): readonly string[] {
  const chains = reachedBy(early, observed, ours);
  const alone = programWith(early, chains, { families: {}, sysctls: new Map() }, true);
  const before = programWith(early, chains, ours, true);
  const behind = programWith(early, chains, ours, false);
  const rules = rulesOf(early, chains);
  const hookOf = unknownSender(early, localTest(world));
  const services = new Set<string>();
  let traces = 0;
  const mayMatch = (place: FrontendPlace): boolean =>
    rules[0]!.tests.every((test) => test(place.flow, hookOf(place)) !== 0);
  for (const place of some(all.filter(mayMatch))) {
    const { service } = place;
    if (services.has(service)) continue;
    const differs = packetsFor(place, hookOf(place), rules, own).some((packet) => {
      if (!decides(alone, packet, world)) return false;
      traces += 1;
      if (traces > tracesMax) throw new TraceError('too many packets would have to be traced');
      return fateOf(before, packet, world) !== fateOf(behind, packet, world);
    });
    if (differs) services.add(service);
    // Findings are reported even if the budget is used up.
    if (services.size >= limits.orderServicesMax || (services.size > 0 && traces >= tracesMax)) break;
  }
  return [...services];
}

/** An even sample of a list that is too long: most rules match all frontends, or none. */
function some<T>(frontends: readonly T[]): readonly T[] {
  const step = Math.ceil(frontends.length / limits.orderFrontendsMax);
  return step <= 1 ? frontends : frontends.filter((_, index) => index % step === 0);
}

/** Whether foreign rules by themselves accept, mark, masquerade or translate a packet. */
function decides(alone: FamilyProgram, packet: Packet, world: World): boolean {
  return trace(alone, packet, world).some(
    ({ verdict, masquerade, path }) =>
      masquerade ||
      verdict === 'accept' ||
      verdict === 'dnat' ||
      path.some(({ rule }) => ['MARK', 'ACCEPT'].includes(targetOf(rule) ?? '')),
  );
}

/** The fate of a packet; dropped and rejected are the same. */
const fateOf = (program: FamilyProgram, packet: Packet, world: World): string =>
  summarise(trace(program, packet, world)).replaceAll('reject', 'drop');

/** The foreign chains that a rule leads to, directly and indirectly. @throws TraceError if there are too many */
function reachedBy(
  { family, table, rule }: EarlyRule,
  observed: Observed,
  ours: NodeState,
): ReadonlyMap<string, readonly string[]> {
  const own = tableOf(ours, family, table).chains;
  const reached = new Map<string, readonly string[]>();
  const follow = (text: string): void => {
    const target = targetOf(text);
    const chain = target === undefined ? undefined : observed[family]?.[table].chains.get(target);
    if (target === undefined || !chain || own.has(target) || reached.has(target)) return;
    reached.set(target, chain.rules);
    if (reached.size > limits.orderChainsMax || chain.rules.length > limits.orderChainRulesMax)
      throw new TraceError('it leads to too many rules');
    for (const one of chain.rules) follow(one);
  };
  follow(rule);
  return reached;
}

/** The foreign rules, the early one first, as the tracer reads them. */
function rulesOf(
  { family, table, hook, rule }: EarlyRule,
  chains: ReadonlyMap<string, readonly string[]>,
): readonly LiveRule[] {
  const rules = new Map([[hook, [rule]], ...chains]);
  const read = iptablesTable({ store: 'nft', family, name: table, policies: new Map(), rules, sets: new Map() });
  return [...read.chains.values()].flatMap((chain) => chain.rules());
}

/** Our rules with foreign ones, before or after our jumps. */
function programWith(
  { family, table, hook, rule }: EarlyRule,
  chains: ReadonlyMap<string, readonly string[]>,
  ours: NodeState,
  isFirst: boolean,
): FamilyProgram {
  const own = tableOf(ours, family, table);
  const jumps = own.jumps.filter((jump) => chainOf(jump) === hook);
  const others = own.jumps.filter((jump) => chainOf(jump) !== hook);
  const changed: TableProgram = {
    chains: Layered.of(own.chains).with(chains),
    jumps: [...others, ...(isFirst ? [rule, ...jumps] : [...jumps, rule])],
  };
  const program = { filter: tableOf(ours, family, 'filter'), nat: tableOf(ours, family, 'nat') };
  return { ...program, [table]: changed };
}

/** A frontend, and any packet to it. */
interface FrontendPlace {
  readonly service: string;
  readonly to: Omit<Packet, 'source' | 'in'>;
  readonly flow: TraceFlow;
}

/** @param own an address of the node, for frontends without one. @returns undefined: packets to it cannot be traced */
function placeOf(
  { service, protocol, address, port }: NamedFrontend,
  family: Family,
  own: string | undefined,
): FrontendPlace | undefined {
  const destination = parseAddress(address ?? own ?? '');
  const source = parseAddress(unknownClient[family]);
  if (!destination || !source || !isTransport(protocol)) return undefined;
  const to = { family, destination: destination.text, protocol, port };
  return { service, to, flow: { ...untouched, source, destination, port } };
}

/** The hook of a rule for packets of which only the destination is known. */
function unknownSender(
  { family, table, hook }: EarlyRule,
  isLocal: LiveHook['isLocal'],
): (place: FrontendPlace) => LiveHook {
  const all = {
    name: hook as LiveHook['name'],
    type: table === 'nat' ? 'nat' : 'filter',
    priority: 0,
    family,
    in: undefined,
    hidden: { source: true, mark: true },
    outOf: () => undefined,
    remembers: undefined,
    state: 'NEW',
    isLocal,
    notes: traceNotes(),
  } as const;
  return ({ to, flow }) => ({ ...all, protocol: to.protocol, original: flow });
}

/** A client that no rule names: addresses reserved for documentation (RFC 5737, RFC 3849). */
const unknownClient = { ipv4: '198.51.100.77', ipv6: '2001:db8:77::1' } as const;

/** Packets of the clients that the rules ask for, of another client, and of the node itself. */
function packetsFor(
  { to, flow }: FrontendPlace,
  hook: LiveHook,
  rules: readonly LiveRule[],
  own: string | undefined,
): readonly Packet[] {
  const asked = rules.flatMap(({ sources }) => sources);
  const first = (texts: readonly string[]): readonly string[] => [...new Set(texts)].slice(0, limits.orderClientsMax);
  const named = asked.flatMap(({ networks }) => networks(flow, hook)).map((text) => text.replace(/\/\d+$/, ''));
  const interfaces = asked.flatMap((one) => one.interfaces).map((name) => name.replace(/\+$/, '0'));
  const fromOutside = first([unknownClient[to.family], ...named]).flatMap((source) =>
    first(['eth0', ...interfaces]).map((name): Packet => ({ ...to, source, in: name })),
  );
  return own === undefined ? fromOutside : [...fromOutside, { ...to, source: own }];
}

const isTransport = (protocol: string): protocol is Packet['protocol'] => ['tcp', 'udp', 'sctp'].includes(protocol);
