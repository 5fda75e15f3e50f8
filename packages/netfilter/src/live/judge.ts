import type { TraceFlow } from '../packet/flow.ts';
import type { Effect, LiveRule } from './rule.ts';

type Decision = 'accept' | 'drop' | 'translate' | 'notrack';

/**
 * Who follows a packet of which not everything is known, at one hook. Comparisons follow packets that are known entirely, and take a
 * doubtful rule not to match, so that a difference is never invented. A judge learns what share of the packet meets each rule: of a
 * doubtful rule one half, and the whole again where both halves come together.
 */
export interface Judge {
  /**
   * Is called for each rule that decides. @param rule undefined: the policy of the base chain
   * @param share 1: the packet meets it in every case; less: an earlier rule may take the packet first, or the rule may not match
   */
  readonly meet: (rule: LiveRule | undefined, decision: Decision, share: number) => void;
  /** What a jump to a chain means that is known without its rules: it decides as it should, or lets the packet continue. */
  readonly own?: (chain: string) => 'ends' | 'passes' | undefined;
  /** Used up by the rules that a packet meets; without any, what follows is not known. */
  readonly effort: Effort;
}

/**
 * How many more rules may be judged; below 0: some were not. Chains that call others twice each lead a packet through billions of rules,
 * and any program with the right to write rules can make them.
 */
export interface Effort {
  left: number;
}

const decisions: { readonly [K in Effect['kind']]?: Decision } = {
  accept: 'accept',
  drop: 'drop',
  reject: 'drop',
  dnat: 'translate',
  untrack: 'notrack',
};

/** Tells a judge what an effect decides. Marks, classes and clients are not followed. @returns the packet where it continues */
export function judged({ meet }: Judge, rule: LiveRule, effect: Effect, flow: TraceFlow): TraceFlow | undefined {
  const isUnread = effect.kind === 'unread';
  const isTaken = isUnread && (effect.does === 'translate' || effect.does === 'proxy');
  const decision = isTaken ? 'translate' : decisions[effect.kind];
  if (decision !== undefined) meet(rule, decision, flow.probability);
  if (decision !== undefined && decision !== 'notrack') return undefined;
  return isUnread && effect.does === 'else' ? doubted(flow) : flow;
}

/** A packet behind something that may have decided about it. */
export const doubted = (flow: TraceFlow): TraceFlow => ({ ...flow, probability: flow.probability * doubt });

/** The share of a packet that a doubtful rule takes. */
export const doubt = 0.5;

/** The parts of a judged packet that are at one place, as one: nothing else of it changes. */
export function together(flows: readonly TraceFlow[]): readonly TraceFlow[] {
  const [first] = flows;
  if (!first || flows.length === 1) return flows;
  return [{ ...first, probability: flows.reduce((sum, { probability }) => sum + probability, 0) }];
}

/** Whether all tests of a rule are understood, and only what it does is not. */
export function isTargetAlone(unread: string, effect: Effect): boolean {
  if (effect.kind === 'sequence') return effect.effects.some((one) => isTargetAlone(unread, one));
  return effect.kind === 'unread' && effect.because === unread;
}
