import {
  chainOf,
  type Family,
  type FamilyProgram,
  isRuleError,
  Layered,
  type NamedFrontend,
  type Packet,
  parseAddress,
  readRule,
  type Rule,
  summarise,
  type TableProgram,
  targetOf,
  trace,
  TraceError,
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
  const frontends: { [F in Family]?: readonly NamedFrontend[] } = {};
  // Each rule has a budget of its own, so that an expensive one does not hide others.
  const tracesMax = Math.ceil(limits.orderTracesMax / Math.min(Math.max(early.length, 1), limits.orderRulesMax));
  for (const rule of early.slice(0, limits.orderRulesMax)) {
    if (isOfKubeProxy(rule)) {
      taking.push({ ...rule, services: ['all Services of this kube-proxy'] });
      continue;
    }
    try {
      const all = (frontends[rule.family] ??= frontendsOf(ours, rule.family));
      const services = servicesTaken(rule, { observed, ours, all, addresses: addresses[rule.family], tracesMax });
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
  readonly all: readonly NamedFrontend[];
  readonly addresses: readonly string[];
  /** How many packets may be traced through our rules. */
  readonly tracesMax: number;
}

function servicesTaken(early: EarlyRule, { observed, ours, all, addresses, tracesMax }: Judging): readonly string[] {
  const { family } = early;
  const foreign = inGrammar(early.rule, reachedBy(early, observed, ours));
  const alone = programWith(early, foreign, { families: {}, sysctls: new Map() }, true);
  const before = programWith(early, foreign, ours, true);
  const behind = programWith(early, foreign, ours, false);
  const world: World = { localAddresses: addresses, ipvs: ours.ipvs };
  const rules = [foreign.rule, ...[...foreign.chains.values()].flat()].map((text) => readOrThrow(text, family));
  const services = new Set<string>();
  let traces = 0;
  for (const frontend of some(all.filter((one) => mayMatch(rules[0]!, one)))) {
    if (services.has(frontend.service)) continue;
    const differs = packetsFor(frontend, rules, family, addresses).some((packet) => {
      if (!decides(alone, packet, world)) return false;
      traces += 1;
      if (traces > tracesMax) throw new TraceError('too many packets would have to be traced');
      return fateOf(before, packet, world) !== fateOf(behind, packet, world);
    });
    if (differs) services.add(frontend.service);
    // Findings are reported even if the budget is used up.
    if (services.size >= limits.orderServicesMax || (services.size > 0 && traces >= tracesMax)) break;
  }
  return [...services];
}

/** An even sample of a list that is too long: most rules match all frontends, or none. */
function some(frontends: readonly NamedFrontend[]): readonly NamedFrontend[] {
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

function readOrThrow(text: string, family: Family): Rule {
  const rule = readRule(text, family, 'program');
  if (isRuleError(rule)) throw new TraceError(rule.error);
  return rule;
}

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

/** A foreign rule of a built-in chain, with the chains that it leads to. */
interface ForeignRules {
  readonly rule: string;
  readonly chains: ReadonlyMap<string, readonly string[]>;
}

/** Renames foreign chains (`DOCKER`, `ufw-before-input`), whose names the grammar of our rules would take for targets of iptables. */
function inGrammar(rule: string, reached: ReadonlyMap<string, readonly string[]>): ForeignRules {
  const names = new Map([...reached.keys()].map((name, index) => [name, `FOREIGN-${index}`]));
  const renamed = (text: string): string =>
    text
      .replace(/^-A (\S+)/, (whole, name: string) => (names.has(name) ? `-A ${names.get(name)}` : whole))
      .replace(/ -([jg]) (\S+)$/, (whole, kind: string, name: string) =>
        names.has(name) ? ` -${kind} ${names.get(name)}` : whole,
      );
  const chains = [...reached].map(([name, rules]) => [names.get(name) ?? name, rules.map(renamed)] as const);
  return { rule: renamed(rule), chains: new Map(chains) };
}

/** Our rules with foreign ones, before or after our jumps. */
function programWith(
  { family, table, hook }: EarlyRule,
  { rule, chains }: ForeignRules,
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

/** Whether the destination that a rule matches may be a frontend. */
function mayMatch({ protocol, destination, matches }: Rule, frontend: NamedFrontend): boolean {
  if (protocol !== undefined && protocol !== frontend.protocol) return false;
  const asked = matches.flatMap((one) => ('destinationPort' in one ? (one.destinationPort ?? []) : []));
  if (asked.length > 0 && !asked.includes(frontend.port)) return false;
  const isExact = destination !== undefined && !destination.negated && /\/(32|128)$/.test(destination.value);
  if (!isExact || frontend.address === undefined) return true;
  return parseAddress(destination.value.replace(/\/\d+$/, ''))?.text === parseAddress(frontend.address)?.text;
}

/** A client that no rule names: addresses reserved for documentation (RFC 5737, RFC 3849). */
const unknownClient = { ipv4: '198.51.100.77', ipv6: '2001:db8:77::1' } as const;

/** Packets of the clients that the rules match, of another client, and of the node itself. */
function packetsFor(
  { protocol, address, port }: NamedFrontend,
  rules: readonly Rule[],
  family: Family,
  addresses: readonly string[],
): readonly Packet[] {
  const distinct = (texts: readonly string[]): readonly string[] =>
    [...new Set(texts)].slice(0, limits.orderClientsMax);
  const sourceOf = ({ source }: Rule): readonly string[] => (source ? [source.value.replace(/\/\d+$/, '')] : []);
  const interfaceOf = (rule: Rule): readonly string[] => (rule.in ? [rule.in.value.replace(/\+$/, '0')] : []);
  const [first] = rules as [Rule];
  // If the rule itself matches a source, packets of other clients do not match.
  const sources =
    first.source?.negated === false ? sourceOf(first) : [unknownClient[family], ...rules.flatMap(sourceOf)];
  const interfaces = first.in?.negated === false ? interfaceOf(first) : ['eth0', ...rules.flatMap(interfaceOf)];
  const own = addresses.find((one) => one !== '127.0.0.1' && one !== '::1');
  const destination = address ?? own;
  if (destination === undefined || !isTransport(protocol)) return [];
  const to = { family, destination, protocol, port };
  const fromOutside = distinct(sources).flatMap((source) =>
    distinct(interfaces).map((name): Packet => ({ ...to, source, in: name })),
  );
  return own === undefined ? fromOutside : [...fromOutside, { ...to, source: own }];
}

const isTransport = (protocol: string): protocol is Packet['protocol'] => ['tcp', 'udp', 'sctp'].includes(protocol);
