import { printCost } from '../../emit/review/cost.ts';
import { exitCodes } from '../../exit.ts';
import { exceededBudgets } from '../../review/cost/budgets.ts';
import { costOf, type NodeCost } from '../../review/cost/cost.ts';
import type { Layout } from '../../review/flows/layout.ts';
import { bundleAt } from '../bundle/bundle-at.ts';
import { print, progress } from '../output/progress.ts';
import { budgetsIn } from '../input/settings.ts';
import { reportProblems } from '../output/output.ts';

interface CostOptions {
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
