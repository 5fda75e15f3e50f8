import type { Problem } from '@sluice/netfilter';
import type { Format } from '@sluice/cli';
import { writeAllocations } from '../../emit/allocations.ts';
import { printResourceList, resultsOf } from '../../emit/krm.ts';
import { printStale } from '../../emit/stale.ts';
import { planTree, writeTree } from '../../emit/tree.ts';
import { exitCodes } from '../../exit.ts';
import { type FunctionConfig, readFunctionConfig } from '../../load/krm/function-config.ts';
import { readResourceList } from '../../load/krm/resource-list.ts';
import { readSources, type SourceFile } from '../../load/sources.ts';
import { render } from '../../render/render.ts';
import { Stopped, writing } from '../failure/failure.ts';
import { type Input, inputOf } from '../input/input.ts';
import { print, say } from '../output/progress.ts';
import { staleProblem } from '../bundle/stale.ts';
import { isStopped, joinProblems } from '../failure/problems.ts';
import { reportProblems } from '../output/output.ts';

/**
 * `sluice krm`: a function for kustomize and kpt. The items of the ResourceList are passed through unchanged: a bundle is not a
 * Kubernetes object, so it is written to `spec.output` of the functionConfig. Problems go to `results` and to standard error.
 */
export async function krmCommand({ output }: { readonly output: Format }): Promise<number> {
  const read = await readSources(['-'], { recursive: false, stdin: process.stdin });
  const [source] = read.sources;
  if (source === undefined) return refuse(read.problems);
  const list = readResourceList(source);
  if (!('text' in list)) return refuse(list);
  const parsed = readFunctionConfig(list);
  const ran =
    parsed.problems.length > 0
      ? { exit: exitCodes.problem, problems: parsed.problems }
      : await runOn(source, parsed.config);
  const shown = output === 'json' ? { ...list, isFlow: true } : list;
  print(printResourceList(shown, resultsOf(list, source.file, ran.problems)));
  reportProblems(ran.problems);
  return ran.exit;
}

/** Without a list there is no output. */
function refuse(problems: readonly Problem[]): number {
  reportProblems(problems);
  return exitCodes.problem;
}

interface FunctionRun {
  readonly exit: number;
  readonly problems: readonly Problem[];
}

/** Errors of the file system become results as well. */
async function runOn(source: SourceFile, config: FunctionConfig): Promise<FunctionRun> {
  try {
    const how = { recursive: false, stdin: process.stdin };
    const base = config.base === undefined ? undefined : await readSources(config.base, how);
    return write(inputOf({ change: { sources: [source], problems: [] }, base }, config), config);
  } catch (error) {
    if (!(error instanceof Stopped)) throw error;
    return { exit: exitCodes.problem, problems: error.problems };
  }
}

const staleHint = 'Remove check from the functionConfig, run the function again and commit the files that it writes';

function write({ input, allocationsDir, problems }: Input, { output, check, strict }: FunctionConfig): FunctionRun {
  const rendered = render(input);
  const found = joinProblems(problems, rendered.problems);
  if (isStopped(found, strict)) return { exit: exitCodes.problem, problems: found };
  if (output === undefined) return { exit: exitCodes.done, problems: found };
  const plan = writing(output, () => planTree(output, rendered.files));
  if ('code' in plan) return { exit: exitCodes.problem, problems: [...found, plan] };
  if (check === true) {
    const stale = staleProblem(output, rendered, plan, allocationsDir);
    if (stale === undefined) return { exit: exitCodes.done, problems: found };
    say(printStale(output, rendered.files, plan));
    return { exit: exitCodes.different, problems: [...found, { ...stale, hint: staleHint }] };
  }
  writing(allocationsDir, () => writeAllocations(allocationsDir, rendered.created));
  writing(output, () => writeTree(output, rendered.files, plan));
  say(`${output}: ${rendered.files.size} files, ${plan.write.length} written, ${plan.remove.length} removed\n`);
  return { exit: exitCodes.done, problems: found };
}
