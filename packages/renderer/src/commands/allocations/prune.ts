import { plural } from '@sluice/netfilter';
import type { Problem } from '@sluice/netfilter';
import { removeAllocations } from '../../emit/allocations.ts';
import { exitCodes } from '../../exit.ts';
import { allocationPath } from '../../load/allocations.ts';
import type { Allocation } from '../../render/allocate/allocation.ts';
import { numbersOf } from '../../render/allocate/ledger.ts';
import { unownedAllocations } from '../../render/allocate/request.ts';
import type { KubeObject } from '../../render/model/kube.ts';
import { readObjects } from '../../render/read/read.ts';
import { writing } from '../failure/failure.ts';
import { type InputOptions, readInput } from '../input/input.ts';
import { print, progress, say } from '../output/progress.ts';
import { isStopped } from '../failure/problems.ts';
import { printDocument, reportProblems } from '../output/output.ts';

interface PruneOptions extends Omit<InputOptions, 'output'> {
  /** Remove them instead of listing them. */
  readonly yes?: boolean;
  readonly output: 'text' | 'json';
}

/**
 * `sluice allocations prune`: lists or removes allocations of Services that are not in the input.
 * @returns exit code 1 when there are such allocations and they are kept
 */
export async function pruneCommand({ yes = false, output, ...options }: PruneOptions): Promise<number> {
  progress('reading');
  const { input, allocationsDir, problems } = await readInput(options);
  const objects = [...input.base, ...input.change];
  const found = [...problems.map(asError), ...doubts(objects)];
  reportProblems(found);
  if (isStopped(found, options.strict)) {
    say('Nothing was removed: allocations of unreadable Services would be removed as well\n');
    return exitCodes.problem;
  }
  const unowned = unownedAllocations(input.allocations, objects);
  if (yes) writing(allocationsDir, () => removeAllocations(allocationsDir, unowned));
  if (output === 'text') print(text(allocationsDir, unowned));
  const items = unowned.map((allocation) => ({ ...allocation, file: fileOf(allocationsDir, allocation) }));
  printDocument(output, 'AllocationList', { removed: yes, items });
  say(
    input.allocations.length === 0
      ? `${allocationsDir} contains no allocations; they are beside the config, which -c names\n`
      : summary(allocationsDir, unowned.length, yes),
  );
  return unowned.length === 0 || yes ? exitCodes.done : exitCodes.different;
}

/** A Service of a misspelled kind is missing from the input. */
const asError = (problem: Problem): Problem =>
  problem.code === 'KIND_UNKNOWN' ? { ...problem, level: 'error' } : problem;

/** Errors in Services: the allocation of a Service whose name cannot be read would look unused. */
function doubts(objects: readonly KubeObject[]): readonly Problem[] {
  const services = objects.filter(({ kind }) => kind === 'Service');
  if (services.length === 0) return [noService];
  const problems: Problem[] = [];
  readObjects(services, problems);
  return problems.filter(({ level }) => level === 'error');
}

const noService: Problem = {
  code: 'INPUT_EMPTY',
  level: 'error',
  message: 'Cannot determine which allocations are in use: the input contains no Service',
  hint: 'Pass the manifests of all Services with -f; to remove all allocations, delete the directory',
};

const fileOf = (dir: string, allocation: Allocation): string => `${dir}/${allocationPath(allocation)}`;

function text(dir: string, allocations: readonly Allocation[]): string {
  return allocations
    .map((allocation) => `${fileOf(dir, allocation)}: ${numbersOf(allocation).join(', ') || 'nothing allocated'}\n`)
    .join('');
}

function summary(dir: string, count: number, removed: boolean): string {
  if (count === 0) return `All allocations in ${dir} belong to Services of the input\n`;
  const what = plural(count, 'allocation');
  return removed
    ? `Removed ${what}; commit ${dir}. The next render may reuse these addresses and ports\n`
    : `${what} of Services that are not in the input: nothing was removed; pass --yes to remove ${count === 1 ? 'it' : 'them'}\n`;
}
