import { type PolicyFormat, printPolicy } from '../../emit/policy/print.ts';
import { exitCodes } from '../../exit.ts';
import { checkPolicy, failing } from '../../review/policy/policy.ts';
import { version } from '../../version.ts';
import { print, progress } from '../output/progress.ts';
import { dayOf } from '../input/day.ts';
import { policyIn } from '../input/settings.ts';
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
