import type { Format } from '@sluice/cli';
import { writeAllocations, removeAllocations } from '../../emit/allocations.ts';
import { exitCodes } from '../../exit.ts';
import { readAllocations, allocationPath } from '../../load/allocations.ts';
import { readConfig } from '../../load/config/config.ts';
import { readAllocationsAt } from '../../load/git/git.ts';
import { fixAllocations } from '../../render/allocate/fix.ts';
import { writing } from '../failure/failure.ts';
import { readConfigFile, siblingAllocations, type InputOptions, readInput } from '../input/input.ts';
import { print, say, progress } from '../output/progress.ts';
import { isStopped, joinProblems } from '../failure/problems.ts';
import { printDocument, reportProblems } from '../output/output.ts';
import { type Problem, plural, refusal, warning } from '@sluice/netfilter';
import { countProblems } from '../../emit/problems.ts';
import { allocatedServices, allocationsAsManifests } from '../../load/allocations-manifests.ts';
import type { Allocation } from '../../render/allocate/allocation.ts';
import { render } from '../../render/render.ts';
import { numbersOf } from '../../render/allocate/ledger.ts';
import { unownedAllocations } from '../../render/allocate/request.ts';
import type { KubeObject } from '../../render/model/kube.ts';
import { readObjects } from '../../render/read/read.ts';

/** `sluice allocations fix`: where two files allocate the same address or port, moves the one that is not on the base branch. */
export function fixCommand(options: {
  readonly config: string;
  readonly baseBranch: string;
  readonly output: Format;
}): number {
  const dir = siblingAllocations(options.config);
  const current = readAllocations(dir);
  const base = readAllocationsAt(dir, options.baseBranch);
  const config = readConfig({ ...readConfigFile(options.config), kubeProxy: [] });
  const read = [...current.problems, ...base.problems, ...config.problems];
  const fixed = isStopped(read, false)
    ? undefined
    : fixAllocations(current.allocations, base.allocations, config.config);
  const problems = [...read, ...(fixed?.problems ?? [])];
  reportProblems(problems);
  writing(dir, () => writeAllocations(dir, fixed?.moved ?? []));
  if (options.output === 'text')
    for (const move of fixed?.moves ?? []) print(`${move.service}: ${move.from} → ${move.to}\n`);
  if (fixed?.moves.length === 0) say(`No duplicate allocations in ${dir}\n`);
  if (isStopped(problems, false)) return exitCodes.problem;
  printDocument(options.output, 'AllocationMoves', { moves: fixed?.moves ?? [] });
  return exitCodes.done;
}

/** `sluice allocations manifests`: prints the Services with all allocated addresses and ports, for an API server to adopt. */
export async function manifestsCommand({
  output,
  ...options
}: Omit<InputOptions, 'output'> & { readonly output: Format }): Promise<number> {
  progress('reading');
  const { input, problems } = await readInput(options);
  const rendered = render(input);
  const found = joinProblems(problems, rendered.problems);
  reportProblems(found);
  if (isStopped(found, options.strict)) {
    say(`Nothing was printed: ${countProblems(found)}\n`);
    return exitCodes.problem;
  }
  if (rendered.created.length > 0) reportProblems(rendered.created.map(notKept));
  const services = input.change.filter(({ kind }) => kind === 'Service');
  const held = new Map(
    [...input.allocations, ...rendered.created].map((allocation) => [allocationPath(allocation), allocation]),
  );
  print(
    output === 'json'
      ? listOf(allocatedServices(services, held.values()))
      : allocationsAsManifests(services, held.values()),
  );
  return exitCodes.done;
}

/** A List, which `kubectl apply -f -` accepts. */
const listOf = (items: readonly object[]): string =>
  `${JSON.stringify({ apiVersion: 'v1', kind: 'List', items }, undefined, 2)}\n`;

/** An allocation that is not in a file yet could go to another Service before this one is applied. */
const notKept = (allocation: Allocation): Problem =>
  warning(
    'ALLOCATION_MISSING',
    'Cannot guarantee the printed addresses and ports: they are not in an allocation file yet',
    'Run `sluice render` with the same input first, and commit allocations/',
    { object: `Service ${allocation.namespace}/${allocation.name}` },
  );

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

const noService = refusal(
  'INPUT_EMPTY',
  'Cannot determine which allocations are in use: the input contains no Service',
  'Pass the manifests of all Services with -f; to remove all allocations, delete the directory',
);

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
