import type { Problem } from '../../problem.ts';
import type { Family, TableName } from '../../rulefile.ts';
import { refusal } from '../check.ts';
import type { Dispatch } from './dispatch.ts';

/** What a program keeps within, whatever the addresses. */
export const treeLimits = {
  /** Chains from the top of a dispatch tree to its leaf. */
  levelsMax: 6,
  /** Rules that a packet is held against in a dispatch tree. */
  stepsMax: 64,
  /**
   * Chains below a built-in one. The nf_tables backend takes 15, counts -g like -j, and says so only when the program is
   * linked to a built-in chain: what is deeper stages without complaint.
   */
  depthMax: 15,
} as const;

/** Everything in a linked table that is deeper or wider than it may be; rules that no tree can hold. */
export function limitProblems(
  table: TableName,
  family: Family,
  dispatched: ReadonlyMap<string, Dispatch>,
): readonly Problem[] {
  const problems: Problem[] = [];
  for (const [chain, { root, levels, steps, errors }] of dispatched) {
    const what = `${chain} of ${family} ${table}`;
    for (const error of errors) problems.push(refusal(`Cannot link ${what} as a tree: ${error}`));
    // The entry chain stands above the root.
    const depth = root.height + 1;
    if (levels > treeLimits.levelsMax)
      problems.push(tooMuch(what, `it is ${levels} levels deep, more than ${treeLimits.levelsMax}`));
    if (steps > treeLimits.stepsMax)
      problems.push(tooMuch(what, `a packet meets ${steps} rules in it, more than ${treeLimits.stepsMax}`));
    if (depth > treeLimits.depthMax)
      problems.push(tooMuch(what, `chains are ${depth} deep below it, more than ${treeLimits.depthMax}`));
  }
  return problems;
}

function tooMuch(what: string, why: string): Problem {
  return {
    code: 'PROGRAM_LIMIT',
    level: 'error',
    message: `Cannot link ${what} as a tree: ${why}`,
    hint: 'Layout `flat` has no such limit; so many Services on one node, or of one address and port, are otherwise too many',
  };
}
