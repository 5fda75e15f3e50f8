import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import * as v from 'valibot';
import type { LoopParts } from '../loop.ts';
import { readRecord, writeRecord } from '../records.ts';
import { tellReceipts } from '../status-file.ts';
import { nothingSent, type ReceiptsToSend, type SendOutcome, type SendRecord, sendReceipts } from './send.ts';

/** What the loop works with. */
export interface ReceiptLoopParts extends Pick<LoopParts, 'log'> {
  readonly receipts: ReceiptsToSend;
  /** The fetch directory, which remembers what was sent. */
  readonly directory: string;
}

const schema = v.strictObject({ schema: v.literal(1), sent: v.string() });
const fileOf = (directory: string): string => join(directory, 'receipts.json');

/** Sends receipts again and again, until the signal aborts. It does not wait for the source, nor the source for it. */
export async function receiptLoop(parts: ReceiptLoopParts, signal: AbortSignal): Promise<void> {
  let record = sentBefore(parts.directory);
  for (let said: string | undefined; !signal.aborted; ) {
    ({ record, said } = await sendAndTell(parts, record, said));
    await sleep(parts.receipts.intervalMs, undefined, { signal }).catch(() => undefined);
  }
}

/** What the process before has sent; without a record, all is sent again. */
export const sentBefore = (directory: string): SendRecord => {
  const sent = readRecord(fileOf(directory), schema)?.sent;
  return sent === undefined ? nothingSent : { ...nothingSent, sent };
};

/**
 * One transfer, whose result is written to the log and the status of the fetch process. A lasting failure is logged once.
 * @param said the failure that was logged last
 */
export async function sendAndTell(
  { receipts, directory, log }: ReceiptLoopParts,
  before: SendRecord,
  said?: string,
): Promise<{ readonly outcome: SendOutcome; readonly record: SendRecord; readonly said: string | undefined }> {
  const { outcome, record } = await sendReceipts(receipts, before, performance.now());
  if (outcome.kind === 'failed') {
    const { message } = outcome.problem;
    if (message !== said) log.warn(outcome.problem, 'cannot send receipts; they are sent later');
    remember(log, () => tellReceipts(directory, outcome.problem));
    return { outcome, record, said: message };
  }
  if (outcome.kind === 'waiting') return { outcome, record, said };
  if (outcome.kind === 'sent') log.info({ receipts: outcome.receipts, bytes: outcome.bytes }, 'sent receipts');
  remember(log, () => {
    tellReceipts(directory, undefined);
    if (outcome.kind === 'sent') writeRecord(fileOf(directory), { schema: 1, sent: record.sent });
  });
  return { outcome, record, said: undefined };
}

/** Writes a file without which the process works, too. */
export function remember(log: ReceiptLoopParts['log'], write: () => void): void {
  try {
    write();
  } catch (error) {
    log.warn({ because: (error as Error).message }, 'cannot remember what was sent; the next start sends it again');
  }
}
