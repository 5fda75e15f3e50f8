import type { Match, Meeting } from './packet.ts';

/** What a rule does to a packet that matches it. */
export type Verdict<Rule> =
  | { readonly kind: 'accept' | 'drop' | 'translate' | 'notrack' | 'return' }
  /** It changes nothing that decides about the packet. */
  | { readonly kind: 'none' }
  /** What follows is not known. */
  | { readonly kind: 'unknown' }
  /** Sluice's own rules decide, as they should. */
  | { readonly kind: 'own' }
  | { readonly kind: 'jump' | 'goto'; readonly called: Iterable<Rule> };

/** A foreign rule, judged for one packet. */
export interface JudgedRule<Rule> {
  readonly match: Match;
  readonly verdict: Verdict<Rule>;
  /** Of judging it, in rules without sets; left out: 1. */
  readonly cost?: number;
}

/**
 * How many more rules may be judged; below 0: some were not. Chains that call others twice each lead a packet through billions of rules,
 * and any program with the right to write rules can make them.
 */
export interface Effort {
  left: number;
}

/** How a packet leaves a chain: `isEnded`, or open, which an earlier rule perhaps decided if it is not `isSure`. */
export interface Left {
  readonly isEnded: boolean;
  readonly isSure: boolean;
}

export type Decision = Exclude<Meeting['kind'], 'exempt'> | 'accept';

/** Deeper than tools accept; foreign chains may form no loop in the kernel. */
const depthMax = 32;

/**
 * Follows one packet through a chain and those that it calls.
 * @param meet is called for each rule that decides, for certain or perhaps
 * @param effort is used up; without any, what follows is not known
 */
export function walkChain<Rule extends JudgedRule<Rule>>(
  rules: Iterable<Rule>,
  meet: (rule: Rule, decision: Decision, isCertain: boolean) => void,
  effort: Effort,
  sure = true,
  depth = 0,
): Left {
  if (depth > depthMax) return { isEnded: false, isSure: false };
  let isSure = sure;
  for (const rule of rules) {
    const { match, verdict, cost = 1 } = rule;
    effort.left -= cost;
    if (effort.left < 0) return { isEnded: false, isSure: false };
    if (match === 'no' || verdict.kind === 'none') continue;
    const certain = isSure && match === 'yes';
    switch (verdict.kind) {
      case 'own':
        if (match === 'yes') return { isEnded: true, isSure };
        break;
      case 'notrack':
        meet(rule, 'notrack', certain);
        break;
      case 'unknown':
        isSure = false;
        break;
      case 'return':
        if (match === 'yes') return { isEnded: false, isSure };
        isSure = false;
        break;
      case 'jump':
      case 'goto': {
        const inside = walkChain(verdict.called, meet, effort, certain, depth + 1);
        if (inside.isEnded && match === 'yes') return inside;
        if (inside.isEnded || (!inside.isSure && certain)) isSure = false;
        if (verdict.kind === 'goto' && match === 'yes') return { isEnded: false, isSure };
        break;
      }
      case 'accept':
      case 'drop':
      case 'translate':
        meet(rule, verdict.kind, certain);
        if (match === 'yes') return { isEnded: true, isSure };
        isSure = false;
    }
  }
  return { isEnded: false, isSure };
}
