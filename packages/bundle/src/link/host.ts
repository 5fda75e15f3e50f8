import { addAll } from '../add-all.ts';
import { bundleLimits } from '../limits.ts';
import type { Problem } from '../problem.ts';
import { dependsOnHost, fillHost, type HostValues } from '../resolve.ts';
import type { ResolvedRules } from './program.ts';

/**
 * The rules as the machine has them: those with `${host.*}` once for each of its addresses, the INVALID drop where it belongs.
 * @param host what the machine, or what stands for it, knows
 * @returns the rules, or `PROGRAM_LIMIT` where they would become more than `bundleLimits.hostRulesMax`
 */
export function fillRules(rules: ResolvedRules, host: HostValues): ResolvedRules | Problem {
  let left: number = bundleLimits.hostRulesMax;
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

function tooMany(count: number): Problem {
  return {
    code: 'PROGRAM_LIMIT',
    level: 'error',
    message: `Cannot fill in the machine's ${count} addresses: more than ${bundleLimits.hostRulesMax} rules would come of it`,
    hint: 'Give the profile narrower networks in nodePortAddresses',
  };
}
