import { readFileSync } from 'node:fs';
import { fieldOf, readSluice } from '@sluice/renderer/load/config/sluice.ts';
import type { Budgets } from '../../cost/budgets.ts';
import type { PolicySettings } from '../../policy/settings.ts';
import { reading } from '@sluice/renderer/commands/failure/failure.ts';
import { isStopped } from '@sluice/renderer/commands/failure/problems.ts';
import { reportProblems } from '@sluice/renderer/commands/output/output.ts';

/** Reads `policy` of the config; undefined when the config is invalid and its problems have been printed. */
export const policyIn = (file: string | undefined): PolicySettings | undefined => settingsIn(file, 'policy');

/** Reads `budgets` of the config; undefined when the config is invalid and its problems have been printed. */
export const budgetsIn = (file: string | undefined): Budgets | undefined => settingsIn(file, 'budgets');

function settingsIn(file: string | undefined, field: 'budgets' | 'policy'): object | undefined {
  if (file === undefined) return {};
  const sluice = readSluice(
    file,
    reading(file, () => readFileSync(file, 'utf8')),
  );
  if (sluice.problems.length > 0) reportProblems(sluice.problems);
  return isStopped(sluice.problems) ? undefined : ((fieldOf(sluice, field) ?? {}) as object);
}
