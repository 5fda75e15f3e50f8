import { isProblem, observationProblem } from '@sluice/bundle';
import { printLiveTrace, printTrace } from '../../emit/review/trace.ts';
import { exitCodes } from '../../exit.ts';
import { openTree } from '../../load/tree.ts';
import type { Layout } from '../../review/flows/layout.ts';
import { traceLive } from '../../review/trace/trace-live.ts';
import { traceOnNode } from '../../review/trace/trace-node.ts';
import { bundleAt } from '../bundle/bundle-at.ts';
import { reading, Stopped } from '../failure/failure.ts';
import { observationAt, placesIn } from '../input/observation.ts';
import { reportProblems } from '../output/output.ts';
import { print, progress } from '../output/progress.ts';
import { badOption, type FlowOptions, liveQuestionOf, questionOf } from '../question/question.ts';

interface TraceOptions extends FlowOptions {
  readonly node?: string;
  /** A file of `sluiced observe`. */
  readonly live?: string;
  readonly layout: Layout;
  readonly output: 'text' | 'json';
}

/** `sluice trace`: prints the paths of a packet through the rules of a node. */
export function traceCommand(dir: string, options: TraceOptions): number {
  const { node, live } = options;
  if (live !== undefined) return traceObserved(live, options);
  if (node === undefined)
    throw new Stopped(badOption('--node', '', 'a bundle has several nodes: pass --node NAME, or --live FILE'));
  const question = questionOf({ ...options, node });
  progress(`reading ${dir}`);
  const traced = reading(dir, () => traceOnNode(bundleAt(dir, openTree), question));
  if (!('ways' in traced)) {
    reportProblems(traced);
    return exitCodes.problem;
  }
  print(printTrace(traced, options.output));
  return exitCodes.done;
}

/** Prints the paths of a packet through what a kernel held. */
function traceObserved(path: string, options: TraceOptions): number {
  const question = liveQuestionOf(options);
  progress(`reading ${path}`);
  const { seen, text } = observationAt(path);
  if (options.node !== undefined && options.node !== seen.node)
    throw new Stopped(
      observationProblem(`Cannot trace on node ${options.node} with ${path}: it is of node ${seen.node}`),
    );
  const traced = traceLive(seen, question, placesIn(path, text));
  if (isProblem(traced)) {
    reportProblems([traced]);
    return exitCodes.problem;
  }
  print(printLiveTrace(traced, options.output));
  return traced.unread.length + traced.missing.length > 0 ? exitCodes.problem : exitCodes.done;
}
