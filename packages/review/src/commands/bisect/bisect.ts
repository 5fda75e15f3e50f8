import { type BundleFiles, readPath } from '@sluice/bundle';
import { compareText, differing, getOrInsert, type Problem, refusal } from '@sluice/netfilter';
import { Command, CommanderError } from 'commander';
import { type Bisection, printBisection } from '../../emit/history.ts';
import { exitCodes } from '@sluice/renderer/exit.ts';
import { type Commit, readCommit, readCommits } from '@sluice/renderer/load/git/commit.ts';
import { BundleHistory, type HistoryStep } from '@sluice/renderer/load/git/history.ts';
import { nodeOf, orProblems } from '../../bundle/node.ts';
import { toolAt } from '../../bundle/tools.ts';
import { familiesOfProfile, viewOf } from '../../bundle/view.ts';
import { familiesOf } from '../../facts/read.ts';
import { type PacketOutcome, packetOutcome, type TestedOutcome } from '../../bisect/outcome.ts';
import { type Change, findChange } from '../../bisect/search.ts';
import { programOf } from '../../flows/program.ts';
import { nodeRan, type ReceiptOptions } from '@sluice/delivery/commands/evidence/node-ran.ts';
import { orStop, Stopped } from '@sluice/renderer/commands/failure/failure.ts';
import { withPacket } from '../options/trace.ts';
import { print, progress } from '@sluice/renderer/commands/output/progress.ts';
import { type PacketOptions, questionOf } from '../question/question.ts';

interface BisectOptions extends Omit<ReceiptOptions, 'node'> {
  readonly from: string;
  readonly to: string;
  readonly ignoreEndpoints?: boolean;
  readonly output: 'text' | 'json';
}

/** `sluice bisect`: finds the commit that changed the outcome of a packet. */
export function bisectCommand(words: readonly string[], options: BisectOptions): number {
  const asked = readTraceWords(words);
  const history = new BundleHistory(asked.dir);
  const test = testerOf(history, asked, options);
  const to = orStop(history.resolve(options.to));
  const steps = orStop(history.steps(orStop(history.resolve(options.from, to)), to));
  const found = bisect({ history, steps, asked, test });
  const files = orStop(history.filesOf(asked.options.node, steps[found.change.after]!));
  const { seconds } = found.report.after.commit;
  const ran = nodeRan(files, { ...options, node: asked.options.node }, { committed: seconds, asked: seconds });
  print(printBisection({ ...found.report, ...(ran && { ran }) }, options.output));
  return found.change.between.length === 0 ? exitCodes.done : exitCodes.different;
}

type Tester = (step: HistoryStep) => TestedOutcome;

function testerOf(history: BundleHistory, { options }: TraceWords, { ignoreEndpoints }: BisectOptions): Tester {
  const question = questionOf(options);
  return (step) => {
    const files = history.filesOf(options.node, step);
    return files instanceof Map
      ? packetOutcome(files, question, ignoreEndpoints === true ? 'verdict' : 'all')
      : { problem: files as Problem };
  };
}

interface Search {
  readonly history: BundleHistory;
  readonly steps: readonly HistoryStep[];
  readonly asked: TraceWords;
  readonly test: Tester;
}

/** @throws Stopped when nothing can be said about an end, or when the ends do not differ */
function bisect({ history, steps, asked, test }: Search): {
  readonly report: Omit<Bisection, 'ran'>;
  readonly change: Change<Problem>;
} {
  const last = steps.length - 1;
  const answers = new Map<number, TestedOutcome>();
  const ask = (at: number): TestedOutcome =>
    getOrInsert(answers, at, () => {
      progress(`about ${Math.ceil(Math.log2(steps.length))} steps: commit ${steps[at]!.commit.slice(0, 12)}`);
      return test(steps[at]!);
    });
  const ends = { start: outcomeAt(ask(0)).key, end: outcomeAt(ask(last)).key };
  if (ends.start === ends.end) throw new Stopped(noDifference(steps[0]!, steps[last]!));
  let change: Change<Problem>;
  let refused: Refused | undefined;
  do {
    change = findChange<Problem>(last, ends, (at) => {
      const tested = ask(at);
      return 'outcome' in tested ? { key: tested.outcome.key } : { skip: tested.problem };
    });
    refused = refusedOf(history, asked, steps, change);
    if (refused) answers.set(refused.at, { problem: refused.problem });
    if (refused?.at === 0 || refused?.at === last) throw new Stopped(refused.problem);
  } while (refused);
  const commitAt = (at: number): Commit => readCommit(history.place, steps[at]!.commit);
  const after = commitAt(change.after);
  const base = mergeBaseOf(history, after);
  const report: Omit<Bisection, 'ran'> = {
    node: asked.options.node,
    packet: `${asked.options.from} → ${asked.options.to}`,
    dir: asked.dir,
    before: { commit: commitAt(change.before), outcome: outcomeAt(ask(change.before)) },
    after: { commit: after, outcome: outcomeAt(ask(change.after)) },
    between: readCommits(
      history.place,
      change.between.map((at) => steps[at]!.commit),
    ),
    skipped: change.skipped.map(({ at, why }) => ({ commit: steps[at]!.commit, why: why.message })),
    commits: last,
    steps: answers.size - 2,
    several: change.others.length > 0,
    files: differingFiles(history, asked, steps[change.before]!, steps[change.after]!),
    ...(base === undefined ? {} : { mergeBase: base }),
  };
  return { report, change };
}

function outcomeAt(tested: TestedOutcome): PacketOutcome {
  if ('problem' in tested) throw new Stopped(tested.problem);
  return tested.outcome;
}

/** A step whose bundle a node would refuse. */
interface Refused {
  readonly at: number;
  readonly problem: Problem;
}

/** A side of a change that a node would refuse for the files that differ: nothing can be said about its packets. */
function refusedOf(
  history: BundleHistory,
  asked: TraceWords,
  steps: readonly HistoryStep[],
  { before, after }: Change<Problem>,
): Refused | undefined {
  const paths = differingFiles(history, asked, steps[before]!, steps[after]!);
  for (const at of [before, after]) {
    const { node } = asked.options;
    const problem = refusalOf(orStop<BundleFiles>(history.filesOf(node, steps[at]!)), node, serviceFilesOf(paths));
    if (problem) return { at, problem };
  }
  return undefined;
}

const serviceFilesOf = (paths: readonly string[]): readonly string[] =>
  paths.filter((path) => readPath(path)?.kind === 'service');

const mergeBaseOf = (history: BundleHistory, { parents: [first, second] }: Commit): string | undefined =>
  first === undefined || second === undefined ? undefined : history.mergeBase(first, second);

/** The files of the node that differ between two steps, in byte order. */
function differingFiles(
  history: BundleHistory,
  { options }: TraceWords,
  a: HistoryStep,
  b: HistoryStep,
): readonly string[] {
  const [old, updated] = [a, b].map((step) => orStop<BundleFiles>(history.filesOf(options.node, step)));
  return differing(old!, updated!).toSorted(compareText);
}

const noDifference = (from: HistoryStep, to: HistoryStep): Problem =>
  refusal(
    'INPUT_EMPTY',
    `Cannot find a change: the packet is treated alike in ${from.commit.slice(0, 12)} and ${to.commit.slice(0, 12)}`,
    'Pass an older --from, or look at the two with `sluice trace --at REV`; a change that was taken back in between cannot be found',
  );

/** `trace [DIR] --node …` as words. */
interface TraceWords {
  readonly dir: string;
  readonly options: PacketOptions;
}

/** Parses the words after `--`. @throws Stopped with `USAGE_INVALID` */
function readTraceWords(words: readonly string[]): TraceWords {
  const [verb, ...rest] = words;
  if (verb !== 'trace')
    throw new Stopped(badWords(`${JSON.stringify(verb)} is not a command that it knows: it takes trace`));
  const trace = withPacket(new Command('trace').argument('[DIR]', '', 'rendered').exitOverride().helpOption(false));
  trace.configureOutput({ writeErr: () => undefined });
  try {
    trace.parse(rest, { from: 'user' });
  } catch (error) {
    if (error instanceof CommanderError) throw new Stopped(badWords(error.message.replace(/^error: /, '')));
    throw error;
  }
  return { dir: (trace.processedArgs as readonly string[])[0]!, options: trace.opts<PacketOptions>() };
}

const badWords = (why: string): Problem =>
  refusal(
    'USAGE_INVALID',
    `Cannot use the command after --: ${why}`,
    'Put options of bisect, such as -o, before the --, and write it like: sluice bisect --from v1.4 -- trace --node node-a --from 10.244.1.7 --to shop/web:80',
  );

/**
 * Why a node would refuse some Service files of its bundle. A trace reads only files that the packet can meet, and a file of
 * unknown rules seems to be one that it does not.
 * @param node which the bundle has
 * @param paths the Service files to read
 */
function refusalOf(files: BundleFiles, node: string, paths: readonly string[]): Problem | undefined {
  const [problem] = orProblems(() => {
    const view = viewOf(files);
    const { profile } = view.nodes.get(node)!;
    for (const family of familiesOfProfile(view, profile)) {
      const own = paths.filter((path) => files.has(path) && familiesOf(toolAt(path).tool).includes(family));
      programOf(view, nodeOf(view, node), family, own);
    }
    return [];
  });
  return problem;
}
