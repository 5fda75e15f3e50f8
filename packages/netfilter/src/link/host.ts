import { addAll } from '../add-all.ts';
import { ruleLimits } from '../limits.ts';
import { type Problem, refusal } from '../problem.ts';
import { dependsOnHost, fillHost, type HostValues } from '../rules/host-values.ts';
import type { ResolvedRules } from './program.ts';

/**
 * Expands rules with `${host.*}` once per address of the machine, and keeps or removes the INVALID drop.
 * @param host the machine's facts, or placeholders for them
 * @returns the rules, or `PROGRAM_LIMIT` above `ruleLimits.hostRulesMax` rules
 */
export function fillRules(rules: ResolvedRules, host: HostValues): ResolvedRules | Problem {
  let left: number = ruleLimits.hostRulesMax;
  const fill = (lines: readonly string[]): readonly string[] => {
    if (!lines.some(dependsOnHost)) return lines;
    const filled: string[] = [];
    for (const line of lines) {
      const own = fillHost(line, host);
      if (own.length > 1) left -= own.length;
      if (left < 0) return [];
      addAll(filled, own);
    }
    return filled;
  };
  const { filter, nat } = rules;
  const result = { filter: { ...filter, rules: fill(filter.rules) }, nat: { ...nat, rules: fill(nat.rules) } };
  return left < 0 ? tooMany(host.nodePortAddresses?.length ?? 0) : result;
}

const tooMany = (count: number): Problem =>
  refusal(
    'PROGRAM_LIMIT',
    `Cannot expand rules for the machine's ${count} addresses: the result exceeds ${ruleLimits.hostRulesMax} rules`,
    'Give the profile narrower networks in nodePortAddresses',
  );
