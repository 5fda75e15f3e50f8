import { addAll } from '../add-all.ts';
import { perObject } from '../per-object.ts';
import { type RuleHit, TraceError } from '../packet/packet.ts';
import type { Trail, TraceFlow } from '../packet/flow.ts';
import { doubt, doubted, isTargetAlone, type Judge, judged, together } from './judge.ts';
import type { BaseChain, Effect, LiveChain, LiveHook, LiveRule, LiveTable } from './rule.ts';
import { isTracked } from './tests.ts';

/** Deeper than any program that the kernel accepts: it refuses chains that form a loop. */
const depthMax = 64;

/** Chains that jump to one chain many times, and rules of chance, multiply what a packet meets. Endpoints times rules
 * of other programs are far fewer. */
const metMax = 500_000;

/** The part of a table that packets are sent through. */
export interface WalkedTable extends Pick<LiveTable, 'title' | 'policyHit'> {
  readonly chains: Pick<LiveTable['chains'], 'get'>;
}

/** The flows that leave a chain: those that fall through or return, and those with a verdict for the base chain. */
interface Left {
  readonly falling: TraceFlow[];
  readonly ended: TraceFlow[];
}

interface At {
  readonly table: WalkedTable;
  readonly hook: LiveHook;
  readonly depth: number;
  readonly judge: Judge | undefined;
}

/**
 * Sends a flow through a base chain.
 * @param judge learns what decides about a packet of which not everything is known
 * @returns every flow that comes out; without a verdict where nothing decided
 */
export function walkBase(
  table: WalkedTable,
  base: BaseChain,
  flow: TraceFlow,
  hook: LiveHook,
  judge?: Judge,
): readonly TraceFlow[] {
  const chain = table.chains.get(base.chain);
  const left: Left = { falling: [], ended: [] };
  if (chain) walk({ table, hook, depth: 0, judge }, chain, flow, left);
  else left.falling.push(flow);
  if (base.policy === 'accept') return [...left.falling, ...left.ended];
  if (judge) for (const { probability } of together(left.falling)) judge.meet(undefined, 'drop', probability);
  const trail = { hit: table.policyHit(base) };
  const dropped = left.falling.map(
    (one): TraceFlow => ({ ...one, verdict: 'drop', trail: { ...trail, before: one.trail } }),
  );
  return [...dropped, ...left.ended];
}

function walk(at: At, chain: LiveChain, start: TraceFlow, left: Left): void {
  const { judge } = at;
  let flows: readonly TraceFlow[] = [start];
  for (const rule of candidates(chain, start, at.hook)) {
    if (flows.length === 0) return;
    at.hook.notes.met.rules += flows.length;
    if (judge && (judge.effort.left -= rule.cost) < 0) {
      addAll(left.falling, flows.map(doubted));
      return;
    }
    if (at.hook.notes.met.rules > metMax)
      throw new TraceError(`Cannot trace ${at.table.title} ${at.hook.name}: a packet meets more than ${metMax} rules`);
    // Most rules match no flow: then the list stays.
    let next: TraceFlow[] | undefined;
    // Without an iterator: this line runs for each packet and rule.
    for (let index = 0; index < flows.length; index++) {
      const flow = flows[index]!;
      const chance = chanceOf(rule, flow, at);
      if (chance === 0) {
        next?.push(flow);
        continue;
      }
      next ??= flows.slice(0, index);
      // Of a judged packet both parts are alike.
      const part = judge && (chance === 1 ? flow : doubted(flow));
      if (chance < 1) next.push(part ?? { ...flow, probability: flow.probability * (1 - chance) });
      const trail = { hit: rule.hit, before: flow.trail };
      apply(at, rule, rule.effect, part ?? { ...flow, trail, probability: flow.probability * chance }, next, left);
    }
    flows = judge && next ? together(next) : (next ?? flows);
  }
  addAll(left.falling, judge && chain.isCut ? flows.map(doubted) : flows);
}

/** Flows of one chain have one destination: only its translation changes that, which ends the chain. */
function candidates(chain: LiveChain, flow: TraceFlow, { protocol, isReply }: LiveHook): readonly LiveRule[] {
  const rules = chain.rules();
  // The port of a reply is that of its source.
  if (rules.length < indexedMin || isReply) return rules;
  const { byKey, rest, restRules } = indexOf(rules);
  const own = byKey.get(`${protocol} ${flow.destination.text} ${flow.port}`);
  if (!own) return restRules;
  return [...own, ...rest].toSorted((a, b) => a.at - b.at).map(({ rule }) => rule);
}

const indexedMin = 12;

interface Placed {
  readonly at: number;
  readonly rule: LiveRule;
}

interface Index {
  readonly byKey: ReadonlyMap<string, readonly Placed[]>;
  readonly rest: readonly Placed[];
  readonly restRules: readonly LiveRule[];
}

const indexOf = perObject((rules: readonly LiveRule[]): Index => {
  const byKey = new Map<string, Placed[]>();
  const rest: Placed[] = [];
  for (const [at, rule] of rules.entries()) {
    const list = rule.key === undefined ? rest : (byKey.get(rule.key) ?? []);
    list.push({ at, rule });
    if (rule.key !== undefined) byKey.set(rule.key, list);
  }
  return { byKey, rest, restRules: rest.map(({ rule }) => rule) };
});

function noteSources({ sources }: LiveRule, flow: TraceFlow, hook: LiveHook): void {
  for (const { networks, interfaces } of sources) {
    for (const network of networks(flow, hook)) hook.notes.networks?.add(network);
    for (const name of interfaces) hook.notes.interfaces?.add(name);
  }
}

/** A rule that is doubtful for this packet matches only where it is assumed to, or by half for a judge. */
function chanceOf(rule: LiveRule, flow: TraceFlow, { hook, judge }: At): number {
  let chance = 1;
  let isKnown = rule.unread === undefined || (judge !== undefined && isTargetAlone(rule.unread, rule.effect));
  for (const test of rule.tests) {
    const found = test(flow, hook);
    if (found === 0) return 0;
    if (found === undefined) isKnown = false;
    else chance *= found;
  }
  if (rule.sources.length > 0) {
    if (hook.notes.networks) noteSources(rule, flow, hook);
    for (const { test } of rule.sources) {
      const found = test(flow, hook);
      if (found === 0) return 0;
      if (found === undefined) isKnown = false;
    }
  }
  const changesNothing =
    rule.effect.kind === 'none' || (rule.effect.kind === 'sequence' && rule.effect.effects.length === 0);
  if (judge) return changesNothing ? 0 : isKnown && chance === 1 ? 1 : doubt;
  if (isKnown || changesNothing) return isKnown ? chance : 0;
  hook.notes.doubts.set(
    rule,
    rule.unread ?? 'whether it matches depends on more than addresses, ports and incoming interfaces',
  );
  return hook.notes.assumed.has(rule) ? chance : 0;
}

/**
 * Does what follows when a rule matches.
 * @param next takes the flows that continue with the next statement, and behind the last with the next rule
 * @param unmatched takes those that a statement without an element for them sends to the next rule
 */
function apply(
  at: At,
  rule: LiveRule,
  effect: Effect,
  flow: TraceFlow,
  next: TraceFlow[],
  left: Left,
  unmatched = next,
): void {
  if (at.judge && !leads.has(effect.kind)) {
    const continuing = judged(at.judge, rule, effect, flow);
    if (continuing) next.push(continuing);
    return;
  }
  switch (effect.kind) {
    case 'none':
      next.push(flow);
      break;
    case 'return':
      left.falling.push(flow);
      break;
    case 'mark':
      next.push({
        ...flow,
        mark: ((flow.mark & ~effect.mask) ^ effect.value) >>> 0,
        unknownMark: (flow.unknownMark & ~effect.mask) >>> 0,
      });
      break;
    case 'connection-mark':
    case 'save-mark':
    case 'restore-mark':
      next.push(withConnectionMark(effect, flow, at.hook));
      break;
    case 'priority':
      next.push({ ...flow, priority: effect.value });
      break;
    case 'recall':
      recall(rule, effect.map, flow, next, unmatched);
      break;
    case 'remember':
      next.push(effect.family === at.hook.family ? remember(rule, effect, flow) : flow);
      break;
    case 'forget':
      next.push(flow.remembered.startsWith(`${effect.map} `) ? { ...flow, remembered: '' } : flow);
      break;
    case 'untrack':
      next.push(isTracked(at.hook) ? flow : { ...flow, untracked: true });
      if (!isTracked(at.hook)) at.hook.notes.untracking.add(rule);
      break;
    case 'jump':
      walkCalled(at, rule, effect.chain, flow, { falling: next, ended: left.ended });
      break;
    case 'goto':
      // Flows that return from it continue in the caller of this chain.
      walkCalled(at, rule, effect.chain, flow, left);
      break;
    case 'sequence':
      for (const each of applyInTurn(at, rule, effect.effects, flow, next, left)) next.push(each);
      break;
    case 'choose':
      choose(at, rule, effect, flow, next, left, unmatched);
      break;
    case 'accept':
    case 'drop':
    case 'reject':
    case 'masquerade':
    case 'dnat':
    case 'unread':
      left.ended.push(end(at, rule, effect, flow));
  }
}

/** Effects that lead to others, or to another chain. */
const leads: ReadonlySet<Effect['kind']> = new Set(['return', 'jump', 'goto', 'sequence', 'choose']);

/** Follows a flow through a chain that a rule calls. @throws TraceError if there is none */
function walkCalled(at: At, rule: LiveRule, called: string, flow: TraceFlow, left: Left): void {
  const own = at.judge?.own?.(called);
  if (own === 'passes') left.falling.push(flow);
  if (own !== undefined) return;
  const chain = at.table.chains.get(called);
  if (chain && at.depth < depthMax) walk({ ...at, depth: at.depth + 1 }, chain, flow, left);
  else if (at.judge) left.falling.push(doubted(flow));
  else if (chain) throw new TraceError(`Cannot trace ${at.table.title} ${at.hook.name}: chains form a loop`);
  else throw new TraceError(`Cannot trace rule "${rule.text}": there is no chain ${called}`);
}

/**
 * The statements of a rule, each with what the one before left.
 * @param unmatched takes the flows for which a statement has no element: for them the rule ends there
 * @returns the flows that continue behind the last statement
 */
function applyInTurn(
  at: At,
  rule: LiveRule,
  effects: readonly Effect[],
  flow: TraceFlow,
  unmatched: TraceFlow[],
  left: Left,
): readonly TraceFlow[] {
  let flows: readonly TraceFlow[] = [flow];
  for (const effect of effects) {
    const after: TraceFlow[] = [];
    for (const each of flows) apply(at, rule, effect, each, after, left, unmatched);
    flows = at.judge ? together(after) : after;
  }
  return flows;
}

/** Marks move between a packet and its connection. What rules gave the connection of an earlier packet is not known. */
function withConnectionMark(
  effect: Extract<Effect, { kind: 'connection-mark' | 'save-mark' | 'restore-mark' }>,
  flow: TraceFlow,
  { state }: LiveHook,
): TraceFlow {
  const { mark, connectionMark } = flow;
  switch (effect.kind) {
    case 'connection-mark':
      return { ...flow, connectionMark: ((connectionMark & ~effect.mask) ^ effect.value) >>> 0 };
    case 'save-mark':
      return { ...flow, connectionMark: ((connectionMark & ~effect.to) ^ (mark & effect.from)) >>> 0 };
    case 'restore-mark': {
      const restored = { ...flow, mark: ((mark & ~effect.to) ^ (connectionMark & effect.from)) >>> 0 };
      const lost = state === 'NEW' ? 0 : effect.from;
      return { ...restored, unknownMark: ((flow.unknownMark & ~effect.to) | lost) >>> 0 };
    }
  }
}

function choose(
  at: At,
  rule: LiveRule,
  effect: Extract<Effect, { kind: 'choose' }>,
  flow: TraceFlow,
  next: TraceFlow[],
  left: Left,
  unmatched: TraceFlow[],
): void {
  const chosen = effect.of(flow, at.hook);
  if (!chosen && at.judge) {
    next.push(doubted(flow));
    return;
  }
  if (!chosen) {
    at.hook.notes.doubts.set(rule, 'its map has a key or a value that is not known');
    if (at.hook.notes.assumed.has(rule)) left.ended.push(unknownOutcome(flow));
    else next.push(flow);
    return;
  }
  let rest = 1;
  for (const { share, effect: own, element } of chosen) {
    rest -= share;
    const trail = trailOf(rule, { rule: element }, flow);
    apply(at, rule, own, { ...flow, trail, probability: flow.probability * share }, next, left);
  }
  if (rest > 1e-9) unmatched.push(rest === 1 ? flow : { ...flow, probability: flow.probability * rest });
}

/** The trail of a flow whose last hit says more of this rule than its text. */
const trailOf = (rule: LiveRule, more: Partial<RuleHit>, flow: TraceFlow): Trail => ({
  hit: { ...rule.hit, ...more },
  before: flow.trail?.before,
});

/** A client that is not remembered: the rule does not match. */
function recall(rule: LiveRule, map: string, flow: TraceFlow, next: TraceFlow[], unmatched: TraceFlow[]): void {
  const { remembered } = flow;
  if (!remembered.startsWith(`${map} `)) {
    unmatched.push(flow);
    return;
  }
  const recent = { action: 'rcheck', name: remembered } as const;
  next.push({ ...flow, priority: remembered.slice(map.length + 1), trail: trailOf(rule, { recent }, flow) });
}

/** An entry that is there keeps its class: an update renews its time alone. */
function remember(rule: LiveRule, { map, seconds }: Extract<Effect, { kind: 'remember' }>, flow: TraceFlow): TraceFlow {
  const isKnown = flow.remembered.startsWith(`${map} `);
  const remembered = isKnown ? flow.remembered : `${map} ${flow.priority}`;
  const recent = { action: 'set', name: remembered, seconds } as const;
  return { ...flow, remembered, trail: trailOf(rule, { recent }, flow) };
}

type Ending = Extract<Effect, { kind: 'accept' | 'drop' | 'reject' | 'masquerade' | 'dnat' | 'unread' }>;

/** Behind routing nothing is admitted any more: rules of Services have refused before. */
const admits = ({ type, name }: LiveHook): boolean => type === 'filter' && name !== 'POSTROUTING';

function end({ hook }: At, rule: LiveRule, effect: Ending, flow: TraceFlow): TraceFlow {
  switch (effect.kind) {
    case 'accept':
      return { ...flow, verdict: 'accept', accepted: flow.accepted || admits(hook) };
    case 'drop':
      return { ...flow, verdict: 'drop' };
    case 'reject':
      return { ...flow, verdict: 'reject' };
    case 'masquerade':
      return { ...flow, verdict: 'accept', masquerade: true };
    case 'dnat': {
      const destination = effect.address ?? flow.destination;
      return { ...flow, verdict: 'accept', destination, port: effect.port ?? flow.port, translated: true };
    }
    case 'unread':
      hook.notes.doubts.set(rule, rule.unread ?? 'its target is not read');
      return unknownOutcome(flow);
  }
}

/** An outcome that no understood rule has: assuming that a rule matches then shows a difference. */
const unknownOutcome = (flow: TraceFlow): TraceFlow => ({
  ...flow,
  verdict: 'accept',
  masquerade: true,
  translated: true,
  destination: { ...flow.destination, text: 'unread' },
});
