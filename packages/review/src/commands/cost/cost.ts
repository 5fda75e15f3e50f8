import { printCost } from '../../emit/cost.ts';
import { exitCodes } from '@sluice/renderer/exit.ts';
import { exceededBudgets } from '../../cost/budgets.ts';
import { costOf, type NodeCost } from '../../cost/cost.ts';
import type { Layout } from '../../flows/layout.ts';
import { bundleAt } from '@sluice/renderer/commands/bundle/bundle-at.ts';
import { print, progress } from '@sluice/renderer/commands/output/progress.ts';
import { budgetsIn } from '../input/settings.ts';
import { reportProblems } from '@sluice/renderer/commands/output/output.ts';

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
