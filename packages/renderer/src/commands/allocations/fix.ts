import type { Format } from '@sluice/cli';
import { writeAllocations } from '../../emit/allocations.ts';
import { exitCodes } from '../../exit.ts';
import { readAllocations } from '../../load/allocations.ts';
import { readConfig } from '../../load/config/config.ts';
import { readAllocationsAt } from '../../load/git/git.ts';
import { fixAllocations } from '../../render/allocate/fix.ts';
import { writing } from '../failure/failure.ts';
import { readConfigFile, siblingAllocations } from '../input/input.ts';
import { print, say } from '../output/progress.ts';
import { isStopped } from '../failure/problems.ts';
import { printDocument, reportProblems } from '../output/output.ts';

/** `sluice allocations fix`: where two files allocate the same address or port, moves the one that is not on the base branch. */
export function fixCommand(options: {
  readonly config: string;
  readonly baseBranch: string;
  readonly output: Format;
}): number {
  const dir = siblingAllocations(options.config);
  const current = readAllocations(dir);
  const base = readAllocationsAt(dir, options.baseBranch);
  const config = readConfig({ ...readConfigFile(options.config), kubeProxy: [] });
  const read = [...current.problems, ...base.problems, ...config.problems];
  const fixed = isStopped(read, false)
    ? undefined
    : fixAllocations(current.allocations, base.allocations, config.config);
  const problems = [...read, ...(fixed?.problems ?? [])];
  reportProblems(problems);
  writing(dir, () => writeAllocations(dir, fixed?.moved ?? []));
  if (options.output === 'text')
    for (const move of fixed?.moves ?? []) print(`${move.service}: ${move.from} → ${move.to}\n`);
  if (fixed?.moves.length === 0) say(`No duplicate allocations in ${dir}\n`);
  if (isStopped(problems, false)) return exitCodes.problem;
  printDocument(options.output, 'AllocationMoves', { moves: fixed?.moves ?? [] });
  return exitCodes.done;
}
