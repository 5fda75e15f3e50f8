import { type PolicyFormat, printPolicy } from '../../emit/policy/print.ts';
import { exitCodes } from '../../exit.ts';
import { load } from '../../load/load.ts';
import { readSources } from '../../load/sources.ts';
import type { ReviewedInput } from '../../review/policy/input.ts';
import { checkPolicy, failing } from '../../review/policy/policy.ts';
import { print, progress } from '../output/progress.ts';
import { dayOf } from '../input/day.ts';
import { policyIn } from '../input/settings.ts';
import { bundleAt } from '../bundle/bundle-at.ts';
import { joinProblems } from '../failure/problems.ts';
import { emptyInput } from '../input/empty.ts';
import { reportProblems } from '../output/output.ts';
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
