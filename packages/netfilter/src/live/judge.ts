import type { TraceFlow } from '../packet/flow.ts';
import type { BaseChain, Effect, LiveChain, LiveHook, LiveRule, LiveTable } from './rule.ts';

/**
 * A packet of which not everything is known, at one hook. Comparisons follow packets that are known entirely (`walk.ts`), and take a
 * doubtful rule not to match, so that a difference is never invented. Here no rule behind a doubtful one is blamed.
 */
export interface JudgedPacket {
  readonly flow: TraceFlow;
  readonly hook: LiveHook;
  /** What a jump to a chain means that is known without its rules: it decides as it should, or lets the packet continue. */
  readonly own?: (chain: string) => 'ends' | 'passes' | undefined;
}

/**
 * How many more rules may be judged; below 0: some were not. Chains that call others twice each lead a packet through billions of rules,
 * and any program with the right to write rules can make them.
 */
export interface Effort {
  left: number;
}

export type Decision = 'accept' | 'drop' | 'translate' | 'notrack';

/**
 * Is called for each rule that decides. @param rule undefined: the policy of the base chain
 * @param isCertain false: an earlier rule may take the packet first, or the rule may not match
 */
type Meet = (rule: LiveRule | undefined, decision: Decision, isCertain: boolean) => void;

/** Deeper than tools accept; chains may form no loop in the kernel. */
const depthMax = 32;

/** How a packet leaves what it met. */
interface Left {
  /** `on`: to the next rule; `back`: to the caller of the chain; `ended`: for the base chain. */
  readonly how: 'on' | 'back' | 'ended';
  /** False: a rule that is doubtful may have decided otherwise. */
  readonly isSure: boolean;
}

const on: Left = { how: 'on', isSure: true };
const doubtful: Left = { how: 'on', isSure: false };

interface At extends JudgedPacket {
  readonly table: LiveTable;
  readonly meet: Meet;
  readonly effort: Effort;
  readonly depth: number;
}

/** Follows a packet through a base chain and those that it calls. @param effort is used up; without any, what follows is not known */
export function judgeBase(table: LiveTable, base: BaseChain, packet: JudgedPacket, meet: Meet, effort: Effort): void {
  const chain = table.chains.get(base.chain);
  const left = chain ? judgeChain({ ...packet, table, meet, effort, depth: 0 }, chain, true) : on;
  if (left.how !== 'ended' && base.policy === 'drop') meet(undefined, 'drop', left.isSure);
}

/** @param isCertain whether the packet meets the chain in every case @returns `on` or `ended` */
function judgeChain(at: At, chain: LiveChain, isCertain: boolean): Left {
  if (at.depth > depthMax) return doubtful;
  let isSure = true;
  for (const rule of chain.rules()) {
    at.effort.left -= rule.cost;
    if (at.effort.left < 0) return doubtful;
    const match = matchOf(rule, at);
    if (match === 'no') continue;
    const left = follow(at, rule, rule.effect, isCertain && isSure && match === 'yes');
    if (match === 'unknown') isSure &&= left.how === 'on' && left.isSure;
    else {
      isSure &&= left.isSure;
      if (left.how !== 'on') return { how: left.how === 'back' ? 'on' : 'ended', isSure };
    }
  }
  return { how: 'on', isSure: isSure && !chain.isCut };
}

function matchOf(rule: LiveRule, { flow, hook }: At): 'yes' | 'no' | 'unknown' {
  let isKnown = rule.unread === undefined || isTargetAlone(rule.unread, rule.effect);
  for (const test of [...rule.tests, ...rule.sources.map((source) => source.test)]) {
    const found = test(flow, hook);
    if (found === 0) return 'no';
    if (found !== 1) isKnown = false;
  }
  return isKnown ? 'yes' : 'unknown';
}

/** Whether all tests of a rule are understood, and only what it does is not. */
function isTargetAlone(unread: string, effect: Effect): boolean {
  if (effect.kind === 'sequence') return effect.effects.some((one) => isTargetAlone(unread, one));
  return effect.kind === 'unread' && effect.because === unread;
}

function follow(at: At, rule: LiveRule, effect: Effect, isCertain: boolean): Left {
  switch (effect.kind) {
    case 'none':
    case 'mark':
    case 'connection-mark':
    case 'save-mark':
    case 'restore-mark':
    case 'priority':
    case 'recall':
    case 'remember':
    case 'forget':
    case 'masquerade':
      return on;
    case 'return':
      return { how: 'back', isSure: true };
    case 'accept':
      return decide(at, rule, 'accept', isCertain);
    case 'drop':
    case 'reject':
      return decide(at, rule, 'drop', isCertain);
    case 'dnat':
      return decide(at, rule, 'translate', isCertain);
    case 'untrack':
      at.meet(rule, 'notrack', isCertain);
      return on;
    case 'unread':
      if (effect.does === 'translate') return decide(at, rule, 'translate', isCertain);
      return effect.does === 'mark' ? on : doubtful;
    case 'jump':
    case 'goto':
      return call(at, effect.chain, effect.kind === 'goto', isCertain);
    case 'sequence':
      return inTurn(at, rule, effect.effects, isCertain);
    case 'choose':
      return choose(at, rule, effect, isCertain);
  }
}

function decide({ meet }: At, rule: LiveRule, decision: Decision, isCertain: boolean): Left {
  meet(rule, decision, isCertain);
  return { how: 'ended', isSure: true };
}

function call(at: At, name: string, isGoto: boolean, isCertain: boolean): Left {
  const own = at.own?.(name);
  if (own !== undefined) return own === 'ends' ? { how: 'ended', isSure: true } : on;
  const chain = at.table.chains.get(name);
  if (!chain) return doubtful;
  const left = judgeChain({ ...at, depth: at.depth + 1 }, chain, isCertain);
  return isGoto && left.how === 'on' ? { ...left, how: 'back' } : left;
}

function inTurn(at: At, rule: LiveRule, effects: readonly Effect[], isCertain: boolean): Left {
  let isSure = true;
  for (const effect of effects) {
    const left = follow(at, rule, effect, isCertain && isSure);
    isSure &&= left.isSure;
    if (left.how !== 'on') return { how: left.how, isSure };
  }
  return { how: 'on', isSure };
}

/** What a map has for the packet; of several elements that may be chosen, none is certain. */
function choose(at: At, rule: LiveRule, effect: Extract<Effect, { kind: 'choose' }>, isCertain: boolean): Left {
  const chosen = effect.of(at.flow, at.hook);
  if (!chosen) return doubtful;
  const [only] = chosen;
  if (!only) return on;
  if (chosen.length === 1 && only.share > 0.999_999) return follow(at, rule, only.effect, isCertain);
  const lefts = chosen.map((one) => follow(at, rule, one.effect, false));
  return lefts.every((left) => left.how === 'on' && left.isSure) ? on : doubtful;
}
