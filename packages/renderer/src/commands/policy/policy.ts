import { readFileSync } from 'node:fs';
import type { Problem } from '@sluice/netfilter';
import { type PolicyFormat, printPolicy } from '../../emit/policy/print.ts';
import { exitCodes } from '../../exit.ts';
import { fieldOf, readSluice } from '../../load/config/sluice.ts';
import { isDate } from '../../load/schema/formats.ts';
import { checkPolicy, failing } from '../../review/policy/policy.ts';
import type { PolicySettings } from '../../review/policy/settings.ts';
import { version } from '../../version.ts';
import { reading, Stopped } from '../failure/failure.ts';
import { print, progress } from '../output/progress.ts';
import { isStopped } from '../render/render.ts';
import { bundleAt } from '../bundle/bundle-at.ts';
import { reportProblems } from '../output/output.ts';

export interface PolicyOptions {
  readonly output: PolicyFormat;
  readonly base?: string;
  readonly config?: string;
  readonly strict?: boolean;
  /** `2026-11-21`; default: the current day in UTC. */
  readonly today?: string;
}

/** `sluice policy`: checks a bundle, or a change to it, against the policy of the config. */
export function policyCommand(dir: string, options: PolicyOptions): number {
  const today = dayOf(options.today);
  const settings = policyIn(options.config);
  if (settings === undefined) return exitCodes.problem;
  progress(`reading ${dir}`);
  const files = bundleAt(dir);
  const base = options.base === undefined ? {} : { base: bundleAt(options.base) };
  progress('checking the policy');
  const result = checkPolicy({ files, ...base, settings, today });
  if (!('findings' in result)) {
    reportProblems(result);
    return exitCodes.problem;
  }
  const config = options.config === undefined ? {} : { config: options.config };
  print(printPolicy({ result, bundle: dir, ...config, version }, options.output));
  return failing(result, options.strict ?? false).length === 0 ? exitCodes.done : exitCodes.different;
}

/**
 * The day for checking the expiry of waivers. The only place in the review that reads the clock.
 * @throws Stopped when the option is not a valid date
 */
export function dayOf(text: string | undefined): string {
  const day = text ?? new Date().toISOString().slice(0, 10);
  if (isDate(day)) return day;
  const problem: Problem = {
    code: 'INPUT_UNREADABLE',
    level: 'error',
    message: `Cannot use --today ${JSON.stringify(day)}: it is not a valid date`,
    hint: 'Write it like 2026-12-31',
  };
  throw new Stopped(problem);
}

/** Reads `policy` of the config; undefined when the config is invalid and its problems have been printed. */
export function policyIn(file: string | undefined): PolicySettings | undefined {
  if (file === undefined) return {};
  const sluice = readSluice(
    file,
    reading(file, () => readFileSync(file, 'utf8')),
  );
  if (sluice.problems.length > 0) reportProblems(sluice.problems);
  return isStopped(sluice.problems) ? undefined : ((fieldOf(sluice, 'policy') ?? {}) as PolicySettings);
}
