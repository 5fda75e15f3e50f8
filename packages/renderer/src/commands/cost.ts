import { readFileSync } from 'node:fs';
import { printCost } from '../emit/review/cost.ts';
import { exitCodes } from '../exit.ts';
import { fieldOf, readSluice } from '../load/config/sluice.ts';
import { type Budgets, exceededBudgets } from '../review/cost/budgets.ts';
import { costOf, type NodeCost } from '../review/cost/cost.ts';
import type { Layout } from '../review/flows/layout.ts';
import { bundleAt } from './bundle-at.ts';
import { reading } from './failure.ts';
import { print, progress } from './progress.ts';
import { isStopped } from './render.ts';
import { reportProblems } from './output.ts';

export interface CostOptions {
  readonly output: 'text' | 'json';
  readonly config?: string;
  readonly layout: Layout;
}

/** `sluice cost`: estimates what a bundle costs its nodes and compares it with the budgets of the config. */
export function costCommand(dir: string, options: CostOptions): number {
  const budgets = budgetsIn(options.config);
  if (budgets === undefined) return exitCodes.problem;
  progress(`reading ${dir}`);
  const costs = costOf(bundleAt(dir), options.layout);
  const problems = costs.filter((one) => 'code' in one);
  if (problems.length > 0) {
    reportProblems(problems);
    return exitCodes.problem;
  }
  const known = costs as readonly NodeCost[];
  const spent = exceededBudgets(known, budgets);
  print(printCost(known, budgets, spent, options.output));
  return spent.length === 0 ? exitCodes.done : exitCodes.different;
}

/** Reads `budgets` of the config; undefined when the config is invalid and its problems have been printed. */
function budgetsIn(file: string | undefined): Budgets | undefined {
  if (file === undefined) return {};
  const sluice = readSluice(
    file,
    reading(file, () => readFileSync(file, 'utf8')),
  );
  if (sluice.problems.length > 0) reportProblems(sluice.problems);
  return isStopped(sluice.problems) ? undefined : ((fieldOf(sluice, 'budgets') ?? {}) as Budgets);
}
