import { printCost } from '../../emit/cost.ts';
import { exitCodes } from '@sluice/renderer/exit.ts';
import { exceededBudgets } from '../../cost/budgets.ts';
import { costOf } from '../../cost/cost.ts';
import type { Layout } from '../../flows/layout.ts';
import { bundleAt } from '@sluice/renderer/commands/bundle/bundle-at.ts';
import { print, progress } from '@sluice/renderer/commands/output/progress.ts';
import { budgetsIn } from '../input/settings.ts';

interface CostOptions {
  readonly output: 'text' | 'json';
  readonly config?: string;
  readonly layout: Layout;
}

/** `sluice cost`: estimates what a bundle costs its nodes and compares it with the budgets of the config. */
export function costCommand(dir: string, options: CostOptions): number {
  const budgets = budgetsIn(options.config);
  progress(`reading ${dir}`);
  const costs = costOf(bundleAt(dir), options.layout);
  const spent = exceededBudgets(costs, budgets);
  print(printCost(costs, budgets, spent, options.output));
  return spent.length === 0 ? exitCodes.done : exitCodes.different;
}
