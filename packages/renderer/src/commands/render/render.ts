import { type BundleFiles, clusterFile, isProblem, readCluster, sumsFile } from '@sluice/bundle';
import type { Format } from '@sluice/cli';
import { plural, printRemoval, type Problem, refusal, removalDefaults, shortList } from '@sluice/netfilter';
import { writeAllocations } from '../../emit/allocations.ts';
import { ignoredText } from '../../emit/ignored.ts';
import { countProblems } from '../../emit/problems.ts';
import { printStale } from '../../emit/stale.ts';
import { planTree, type TreePlan, writeTree } from '../../emit/tree.ts';
import { exitCodes } from '../../exit.ts';
import { openTree, readText } from '../../load/tree.ts';
import { unownedAllocations } from '../../render/allocate/request.ts';
import { renderWithQuarantine } from '../../render/quarantine/with-quarantine.ts';
import { render, type Rendered, type RenderInput } from '../../render/render.ts';
import { RemovalFinder } from '../../removal/removal.ts';
import { sumsMismatch } from '../bundle/complete.ts';
import { staleProblem } from '../bundle/stale.ts';
import { withoutNodes } from '../bundle/without-nodes.ts';
import { reading, writing } from '../failure/failure.ts';
import { isStopped, joinProblems } from '../failure/problems.ts';
import { type InputOptions, readInput } from '../input/input.ts';
import { printDocument, reportProblems } from '../output/output.ts';
import { print, progress, say } from '../output/progress.ts';

interface RenderOptions extends InputOptions {
  readonly output: string;
  readonly report: Format;
  readonly check?: boolean;
  /** Leave invalid objects out and keep their last good files. */
  readonly quarantine?: boolean;
  readonly verbose?: boolean;
  /** A cluster that lacks most Services of the directory is meant. */
  readonly acceptRemoval?: boolean;
}

/** `sluice render`: reads, renders and writes the directory, or with `--check` reports whether it is up to date. */
export async function renderCommand(options: RenderOptions): Promise<number> {
  progress('reading');
  const { input, ignored, allocationsDir, problems } = await readInput(options);
  progress(`rendering ${input.base.length + input.change.length} objects`);
  const last = (path: string): string | undefined => readText(options.output, path);
  const rendered = options.quarantine ? renderWithQuarantine(input, last) : render(input);
  const joined = joinProblems(problems, rendered.problems);
  // After an error the Nodes are not known.
  const found = isStopped(joined) ? joined : [...joined, ...withoutNodes(rendered.files)];
  const verbose = options.verbose ?? false;
  if (isStopped(found, options.strict)) {
    const mayHelp = !options.quarantine && !options.strict && !isStopped(problems);
    return refuse(found, options.output, { verbose, hint: mayHelp ? quarantineHint(input) : '' });
  }
  reportProblems(found, verbose);
  progress(`comparing ${rendered.files.size} files with ${options.output}`);
  const plan = writing(options.output, () => planTree(options.output, rendered.files));
  if ('code' in plan) return refuse([plan], options.output);
  const taken = releaseThere(options.output, rendered.files, plan);
  if (taken) return refuse([taken], options.output);
  if (options.check) return check(options, rendered, plan, allocationsDir);
  const held =
    options.fromCluster === true && options.acceptRemoval !== true && removalHeld(options.output, rendered.files);
  if (held) return refuse([held], options.output);
  progress(`writing ${plan.write.length} files`);
  writing(allocationsDir, () => writeAllocations(allocationsDir, rendered.created));
  writing(options.output, () => writeTree(options.output, rendered.files, plan));
  const unowned = unownedAllocations(input.allocations, [...input.base, ...input.change]).length;
  say(summary({ dir: options.output, rendered, plan, ignored, unowned, problems: found }));
  printDocument(options.report, 'RenderResult', {
    ...resultOf(options.output, rendered, plan),
    ignored: Object.fromEntries(ignored),
    unownedAllocations: unowned,
  });
  return exitCodes.done;
}

function refuse(problems: readonly Problem[], output: string, { verbose = false, hint = '' } = {}): number {
  reportProblems(problems, verbose);
  say(`Nothing was written to ${output}: ${countProblems(problems)}\n${hint}`);
  return exitCodes.problem;
}

/** Suggests `--quarantine`; empty when leaving objects out does not help. */
function quarantineHint(input: RenderInput): string {
  const { files, quarantine } = renderWithQuarantine(input, () => undefined);
  if (files.size === 0) return '';
  const objects = quarantine.map(({ object }) => object);
  return `Add --quarantine to render the rest${objects.length > 0 ? ` without ${shortList(objects)}` : ''}\n`;
}

/**
 * Refuses to render over a release: with a `SHA256SUMS` that does not match, nodes would refuse the directory, and removing that file,
 * with signatures and serial, is the operator's decision.
 * @returns undefined when the directory has no release, or one of exactly these files
 */
function releaseThere(dir: string, files: BundleFiles, plan: TreePlan): Problem | undefined {
  const sums = reading(dir, () => readText(dir, sumsFile));
  if (sums === undefined) return undefined;
  const changed = plan.write.length + plan.remove.length;
  const misfit =
    changed === 0
      ? sumsMismatch(dir, sums, files)
      : `${changed} of its files ${changed === 1 ? 'differs' : 'differ'} from the rendered ones`;
  return misfit === undefined
    ? undefined
    : refusal(
        'OUTPUT_NOT_A_BUNDLE',
        `Cannot render to ${dir}: it contains a release (${sumsFile}), and ${misfit}`,
        'Render to another directory; if the release is there by mistake, remove release.yaml, SHA256SUMS and its signatures',
      );
}

/** `--check`: prints the differences and a problem that counts them, or that the directory is up to date. */
function check(
  { output: dir, report }: RenderOptions,
  rendered: Rendered,
  plan: TreePlan,
  allocationsDir: string,
): number {
  const result = resultOf(dir, rendered, plan);
  const problem = staleProblem(dir, rendered, plan, allocationsDir);
  if (problem === undefined) {
    say(`${dir} is up to date: ${rendered.files.size} files\n`);
    printDocument(report, 'RenderCheck', result);
    return exitCodes.done;
  }
  if (report === 'text') print(printStale(dir, rendered.files, plan));
  reportProblems([problem]);
  printDocument(report, 'RenderCheck', result);
  return exitCodes.different;
}

/** The JSON result: files that are, or would be, written and removed, and Services that get allocations. */
const resultOf = (output: string, { files, created }: Rendered, { write, remove }: TreePlan): object => ({
  output,
  files: files.size,
  written: write,
  removed: remove,
  numbered: created.map(({ namespace, name }) => `${namespace}/${name}`),
  partial: isPartial(files),
});

function isPartial(files: BundleFiles): boolean {
  const cluster = readCluster(clusterFile, files.get(clusterFile) ?? '');
  return !isProblem(cluster) && !cluster.complete;
}

interface RenderOutcome {
  readonly dir: string;
  readonly rendered: Rendered;
  readonly plan: TreePlan;
  readonly ignored: ReadonlyMap<string, number>;
  /** The number of allocations without a Service. */
  readonly unowned: number;
  readonly problems: readonly Problem[];
}

function summary({ dir, rendered, plan, ignored, unowned, problems }: RenderOutcome): string {
  const counted = countProblems(problems);
  return [
    `${dir}: ${rendered.files.size} files, ${plan.write.length} written, ${plan.remove.length} removed\n`,
    rendered.created.length > 0
      ? `Allocated addresses or ports for ${plural(rendered.created.length, 'Service')}; commit allocations/\n`
      : '',
    unownedText(unowned),
    isPartial(rendered.files)
      ? 'Partial: the input may not contain every Service of the cluster. If it does, set `complete: true` in sluice.yaml; otherwise nodes accept the bundle only with --allow-partial\n'
      : '',
    ignoredText(ignored),
    counted === '' ? '' : `${counted}\n`,
  ].join('');
}

function unownedText(count: number): string {
  if (count === 0) return '';
  const what = count === 1 ? '1 allocation belongs' : `${count} allocations belong`;
  return `${what} to Services that are not in the input; sluice allocations prune lists and removes ${count === 1 ? 'it' : 'them'}\n`;
}

/**
 * Holds a bundle of a cluster that lacks most of what its directory has: an API server that was restored empty, the kubeconfig of another
 * cluster, or permissions that hide Services. `sluice watch` waits a while; one run cannot know for how long the cluster has lacked them.
 * @param dir without a whole bundle it has nothing to lose
 * @returns `REMOVAL_HELD`; undefined: nothing is held
 */
function removalHeld(dir: string, files: BundleFiles): Problem | undefined {
  const before = reading(dir, () => openTree(dir));
  const removal = isProblem(before) ? undefined : new RemovalFinder().find(before, files, removalDefaults);
  return (
    removal &&
    refusal(
      'REMOVAL_HELD',
      `Cannot take away ${printRemoval(removal, 'Services')} of ${dir}: the cluster lacks them`,
      'Find out whether this is the right cluster, whether it was restored, and what the account may list. If the removal is meant, add --accept-removal',
    )
  );
}
