import { type PolicyFormat, printPolicy } from '../../emit/policy/print.ts';
import { exitCodes } from '@sluice/renderer/exit.ts';
import { load } from '@sluice/renderer/load/load.ts';
import { readSources } from '@sluice/renderer/load/sources.ts';
import type { ReviewedInput } from '../../policy/input.ts';
import { checkPolicy, failing } from '../../policy/policy.ts';
import { print, progress } from '@sluice/renderer/commands/output/progress.ts';
import { dayOf } from '@sluice/renderer/commands/input/day.ts';
import { policyIn } from '../input/settings.ts';
import { bundleAt } from '@sluice/renderer/commands/bundle/bundle-at.ts';
import { joinProblems } from '@sluice/renderer/commands/failure/problems.ts';
import { emptyInput } from '@sluice/renderer/commands/input/empty.ts';
import { reportProblems } from '@sluice/renderer/commands/output/output.ts';
import { reviewedInput } from './reviewed-input.ts';

interface PolicyOptions {
  readonly output: PolicyFormat;
  readonly base?: string;
  readonly filename?: readonly string[];
  readonly recursive?: boolean;
  readonly config?: string;
  readonly strict?: boolean;
  /** `2026-11-21`; default: the current day in UTC. */
  readonly today?: string;
}

/** `sluice policy`: checks a bundle, or a change to it, against the policy of the config. */
export async function policyCommand(dir: string, options: PolicyOptions): Promise<number> {
  const today = dayOf(options.today);
  const settings = policyIn(options.config);
  if (settings === undefined) return exitCodes.problem;
  progress(`reading ${dir}`);
  const files = bundleAt(dir);
  const base = options.base === undefined ? {} : { base: bundleAt(options.base) };
  const input = options.filename && (await readReviewed(options.filename, options.recursive ?? false));
  if (input === 'refused') return exitCodes.problem;
  progress('checking the policy');
  const result = checkPolicy({ files, ...base, ...(input && { input }), settings, today });
  if (!('findings' in result)) {
    reportProblems(result);
    return exitCodes.problem;
  }
  const config = options.config === undefined ? {} : { config: options.config };
  print(printPolicy({ result, bundle: dir, ...config }, options.output));
  return failing(result, options.strict ?? false).length === 0 ? exitCodes.done : exitCodes.different;
}

/** Reads the objects of `-f`; `refused` when they cannot be read and their problems have been printed. */
async function readReviewed(filename: readonly string[], recursive: boolean): Promise<ReviewedInput | 'refused'> {
  const read = emptyInput(await readSources(filename, { recursive, stdin: process.stdin }), '-f', recursive);
  const { objects, problems } = load(read.sources);
  const found = joinProblems(read.problems, problems).filter(({ level }) => level === 'error');
  if (found.length === 0) return reviewedInput(objects);
  reportProblems(found);
  return 'refused';
}
