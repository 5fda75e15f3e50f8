import { observationProblem } from '@sluice/bundle';
import { printLiveTrace, printTrace } from '../../emit/trace.ts';
import { exitCodes } from '@sluice/renderer/exit.ts';
import { openTree } from '@sluice/renderer/load/tree.ts';
import { traceLive } from '../../trace/trace-live.ts';
import { traceOnNode } from '../../trace/trace-node.ts';
import { bundleAt } from '@sluice/renderer/commands/bundle/bundle-at.ts';
import { reading, Stopped } from '@sluice/renderer/commands/failure/failure.ts';
import { observationAt, placesIn } from '../input/observation.ts';
import { print, progress } from '@sluice/renderer/commands/output/progress.ts';
import { badOption, type FlowOptions, liveQuestionOf, questionOf } from '../question/question.ts';
import type { AtOptions } from './trace-at.ts';

interface TraceOptions extends FlowOptions, Omit<AtOptions, 'node'> {
  readonly node?: string;
  /** A file of `sluiced observe`. */
  readonly live?: string;
  /** A revision or a time. */
  readonly at?: string;
}

/** `sluice trace`: prints the paths of a packet through the rules of a node. */
export async function traceCommand(dir: string, options: TraceOptions): Promise<number> {
  const { node, live, at } = options;
  const { branch, receipts = options.allowedReceipts } = options;
  if (at === undefined && (branch ?? receipts) !== undefined)
    throw new Stopped(badOption(branch === undefined ? '--receipts' : '--branch', branch ?? receipts ?? '', without));
  if (live !== undefined) return traceObserved(live, options);
  if (node === undefined)
    throw new Stopped(badOption('--node', '', 'a bundle has several nodes: pass --node NAME, or --live FILE'));
  // What reads commits and receipts is loaded for those alone.
  if (at !== undefined) return (await import('./trace-at.ts')).traceAt(at, dir, { ...options, node });
  const question = questionOf({ ...options, node });
  progress(`reading ${dir}`);
  const traced = reading(dir, () => traceOnNode(bundleAt(dir, openTree), question));
  print(printTrace(traced, options.output));
  return exitCodes.done;
}

const without = 'there is no --at REV|TIME, to which it belongs';

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
  print(printLiveTrace(traced, options.output));
  return traced.unread.length + traced.missing.length > 0 ? exitCodes.problem : exitCodes.done;
}
