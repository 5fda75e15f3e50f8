import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { reasonOf } from '@sluice/cli';
import { fileDigest, readReceiptName, type Receipt, receiptFile, receiptLimits, releaseLimits } from '@sluice/bundle';
import { type Problem, refusal } from '@sluice/netfilter';
import { RegistryFailure } from '@sluice/transport/http/failure.ts';
import { type CarriedReceipt, packReceipts } from '@sluice/transport/receipts/archive.ts';
import { receiptTransportLimits } from '@sluice/transport/receipts/limits.ts';
import type { ReceiptStore } from '@sluice/transport/receipts/store.ts';
import { readTrusted } from '../../inbox/descend.ts';
import { InboxError, trustOf } from '../../inbox/trust.ts';
import { unlessMissing } from '../../kernel/open-file.ts';
import { pauseBeforeRetry } from '../../paces.ts';
import { fetchLimits } from '../limits.ts';
import { SourceFailure } from '../source.ts';

/** What is sent, and where to. */
export interface ReceiptsToSend {
  readonly node: string;
  /** The directory that `sluiced` writes receipts to. */
  readonly directory: string;
  /** The store, for one transfer; throws SourceFailure or RegistryFailure. */
  readonly open: () => ReceiptStore;
  /** The least time between two transfers: what changed meanwhile travels together. */
  readonly intervalMs: number;
}

/** What is kept from one call to the next. */
export interface SendRecord {
  /** The store that took an archive last, and the archive's digest. */
  readonly sent?: string;
  /** Failures in a row. */
  readonly failures: number;
  /** Nothing is sent before. */
  readonly notBeforeMs: number;
}

export const nothingSent: SendRecord = { failures: 0, notBeforeMs: 0 };

export type SendOutcome =
  /** No signed receipt is there. */
  | { readonly kind: 'none' }
  /** The store took this archive before. */
  | { readonly kind: 'unchanged' }
  /** The interval, or the back-off after a failure, is not over. */
  | { readonly kind: 'waiting'; readonly untilMs: number }
  | { readonly kind: 'sent'; readonly receipts: number; readonly bytes: number }
  | { readonly kind: 'failed'; readonly problem: Problem; readonly untilMs: number };

/**
 * Sends the newest receipts of this node, if they differ from what was sent before. Never throws: a node does not depend on it.
 * @param nowMs by any clock, the same for all calls
 */
export async function sendReceipts(
  { node, directory, open, intervalMs }: ReceiptsToSend,
  record: SendRecord,
  nowMs: number,
): Promise<{ readonly outcome: SendOutcome; readonly record: SendRecord }> {
  const { failures, notBeforeMs } = record;
  if (nowMs < notBeforeMs) return { outcome: { kind: 'waiting', untilMs: notBeforeMs }, record };
  let name = '';
  try {
    const packed = packReceipts(node, newestIn(directory, node));
    if (packed === undefined) return { outcome: { kind: 'none' }, record };
    const { archive, count } = packed;
    const store = open();
    name = store.name;
    const sent = `${name} ${fileDigest(archive)}`;
    if (sent === record.sent) return { outcome: { kind: 'unchanged' }, record };
    await store.write(node, archive);
    return {
      outcome: { kind: 'sent', receipts: count, bytes: archive.length },
      record: { sent, failures: 0, notBeforeMs: nowMs + intervalMs },
    };
  } catch (error) {
    const mostMs = Math.max(intervalMs, fetchLimits.pauseMsMax);
    const untilMs = nowMs + pauseBeforeRetry(failures, { leastMs: intervalMs, mostMs });
    return {
      outcome: { kind: 'failed', problem: problemOf(error, name), untilMs },
      record: { ...record, failures: failures + 1, notBeforeMs: untilMs },
    };
  }
}

/** Receipts of this node alone; a name says which are the newest, so that no other file is opened. */
function newestIn(directory: string, node: string): readonly CarriedReceipt[] {
  return namesIn(directory)
    .flatMap((name) => readReceiptName(name) ?? [])
    .filter((receipt) => receipt.node === node)
    .toSorted((a, b) => b.number - a.number)
    .slice(0, receiptTransportLimits.receiptsMax)
    .flatMap((receipt) => receiptAt(directory, receipt) ?? []);
}

/** @returns undefined for a receipt that was removed since the directory was read */
function receiptAt(directory: string, receipt: Pick<Receipt, 'node' | 'number'>): CarriedReceipt | undefined {
  const path = join(directory, receiptFile(receipt));
  const text = textOf(path, receiptLimits.bytesMax);
  const signature = textOf(`${path}.sig`, releaseLimits.signatureBytesMax);
  return text === undefined ? undefined : { number: receipt.number, text, signature };
}

/** Of root or this user alone: others must not make this process send their files. */
function textOf(path: string, bytesMax: number): string | undefined {
  return unlessMissing(() => readTrusted(path, trustOf(undefined), bytesMax, 0).toString('latin1'));
}

/** Empty before the first receipt. */
const namesIn = (directory: string): readonly string[] => unlessMissing(() => readdirSync(directory)) ?? [];

/** @param name of the store; empty: it was not opened */
function problemOf(error: unknown, name: string): Problem {
  if (error instanceof RegistryFailure || error instanceof SourceFailure) return error.problem;
  if (error instanceof InboxError) return refusal('RECEIPT_INVALID', error.message, error.hint);
  return refusal(
    'OUTPUT_UNWRITABLE',
    `Cannot send receipts${name === '' ? '' : ` to ${name}`}: ${reasonOf(error)}`,
    'Check the path, its permissions and the free space; the same receipts are sent again later',
  );
}
