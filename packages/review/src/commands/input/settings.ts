import { readFileSync } from 'node:fs';
import { fieldOf, readSluice } from '@sluice/renderer/load/config/sluice.ts';
import type { Budgets } from '../../cost/budgets.ts';
import type { PolicySettings } from '../../policy/settings.ts';
import { reading, Stopped } from '@sluice/renderer/commands/failure/failure.ts';
import { isStopped } from '@sluice/renderer/commands/failure/problems.ts';
import { reportProblems } from '@sluice/renderer/commands/output/output.ts';

/** Reads `policy` of the config. @throws Stopped for an invalid config */
export const policyIn = (file: string | undefined): PolicySettings => settingsIn(file, 'policy');

/** Reads `budgets` of the config. @throws Stopped for an invalid config */
export const budgetsIn = (file: string | undefined): Budgets => settingsIn(file, 'budgets');

function settingsIn(file: string | undefined, field: 'budgets' | 'policy'): object {
  if (file === undefined) return {};
  const sluice = readSluice(
    file,
    reading(file, () => readFileSync(file, 'utf8')),
  );
  if (isStopped(sluice.problems)) throw new Stopped(sluice.problems);
  reportProblems(sluice.problems);
  return (fieldOf(sluice, field) ?? {}) as object;
}
