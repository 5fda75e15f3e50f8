import { type Problem, refusal } from '../../problem.ts';
import type { Family, TableName } from '../../family.ts';
import { unlinkable } from '../check.ts';
import type { Dispatch } from './dispatch.ts';

/** The limits of a program, for any set of addresses. */
const treeLimits = {
  /** Chains from the top of a dispatch tree to its leaf. */
  levelsMax: 6,
  /** Rules that a packet is tested against in a dispatch tree. */
  stepsMax: 64,
  /**
   * Chains below a built-in one. The nf_tables backend accepts 15, counts -g like -j, and fails only when the program is linked to a
   * built-in chain: deeper chains stage without an error.
   */
  depthMax: 15,
} as const;

/** The problems of a linked table: dispatch chains above a limit, and rules that cannot move into a tree. */
export function limitProblems(
  table: TableName,
  family: Family,
  dispatched: ReadonlyMap<string, Dispatch>,
): readonly Problem[] {
  const problems: Problem[] = [];
  for (const [chain, { root, levels, steps, errors }] of dispatched) {
    const what = `${chain} of ${family} ${table}`;
    for (const error of errors) problems.push(unlinkable(`Cannot link ${what} as a tree: ${error}`));
    // The entry chain is above the root.
    const depth = root.height + 1;
    if (levels > treeLimits.levelsMax)
      problems.push(tooMuch(what, `it is ${levels} levels deep (limit: ${treeLimits.levelsMax})`));
    if (steps > treeLimits.stepsMax)
      problems.push(tooMuch(what, `a packet traverses up to ${steps} rules (limit: ${treeLimits.stepsMax})`));
    if (depth > treeLimits.depthMax)
      problems.push(tooMuch(what, `chains are nested ${depth} deep (limit: ${treeLimits.depthMax})`));
  }
  return problems;
}

const tooMuch = (what: string, why: string): Problem =>
  refusal(
    'PROGRAM_LIMIT',
    `Cannot link ${what} as a tree: ${why}`,
    'Use layout `flat`, which has no such limit, or fewer Services per node or per address and port',
  );
