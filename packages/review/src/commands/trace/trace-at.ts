import { printTraceAt } from '../../emit/history.ts';
import { exitCodes } from '@sluice/renderer/exit.ts';
import { readCommit } from '@sluice/renderer/load/git/commit.ts';
import { BundleHistory } from '@sluice/renderer/load/git/history.ts';
import { secondsOf } from '@sluice/renderer/load/git/time.ts';
import { traceOnNode } from '../../trace/trace-node.ts';
import { nodeRan, type ReceiptOptions } from '@sluice/delivery/commands/evidence/node-ran.ts';
import { orStop } from '@sluice/renderer/commands/failure/failure.ts';
import { print, progress } from '@sluice/renderer/commands/output/progress.ts';
import { type PacketOptions, questionOf } from '../question/question.ts';

/** The options of `sluice trace --at`. */
export interface AtOptions extends PacketOptions, ReceiptOptions {
  /** The branch on whose first parents a time is looked for; default: HEAD. */
  readonly branch?: string;
  readonly output: 'text' | 'json';
}

/**
 * Traces a packet through the bundle of a commit or a time.
 * @param when a revision, or a time as `--at` takes it @param dir in the work tree of the repository
 * @throws Stopped for a revision, a bundle or receipts that cannot be read
 */
export function traceAt(when: string, dir: string, options: AtOptions): number {
  const question = questionOf(options);
  const history = new BundleHistory(dir);
  progress(`reading ${dir} at ${when}`);
  const commit = readCommit(history.place, orStop(history.resolve(when, options.branch)));
  const files = orStop(history.filesOf(options.node, orStop(history.step(commit.id))));
  const trace = traceOnNode(files, question);
  const asked = secondsOf(when) ?? commit.seconds;
  const ran = nodeRan(files, options, { committed: commit.seconds, asked });
  print(printTraceAt({ commit, trace, ...(ran && { ran }) }, options.output));
  return exitCodes.done;
}
