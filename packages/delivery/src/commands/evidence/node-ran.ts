import { type BundleFiles, summariseNode } from '@sluice/bundle';
import { refusal } from '@sluice/netfilter';
import { type NodeRan, ranOf } from '../../fleet/ran.ts';
import { Stopped } from '@sluice/renderer/commands/failure/failure.ts';
import { instantText } from '@sluice/renderer/load/git/time.ts';
import { receiptsSince } from './evidence.ts';

/** The options that say what nodes have reported. */
export interface ReceiptOptions {
  readonly node: string;
  readonly receipts?: string;
  readonly allowedReceipts?: string;
}

/**
 * What the receipts of a node say about its rules in a bundle.
 * @param times in seconds since 1970: when the bundle was committed, and the time that was asked for
 * @returns undefined without `--receipts`
 * @throws Stopped for receipts that cannot be used, or a bundle that the node would refuse
 */
export function nodeRan(
  files: BundleFiles,
  { node, receipts, allowedReceipts }: ReceiptOptions,
  times: { readonly committed: number; readonly asked: number },
): NodeRan | undefined {
  if (receipts === undefined && allowedReceipts === undefined) return undefined;
  if (receipts === undefined || allowedReceipts === undefined) throw new Stopped(half);
  const summary = summariseNode(files, node);
  if (!('version' in summary)) throw new Stopped(summary[0]!);
  const own = receiptsSince(receipts, allowedReceipts, node, instantText(times.committed));
  return ranOf(node, summary.version, own, instantText(times.asked));
}

const half = refusal(
  'INPUT_UNREADABLE',
  'Cannot use receipts: of --receipts and --allowed-receipts one is missing',
  'Pass both: receipts count only with the keys of the nodes',
);
