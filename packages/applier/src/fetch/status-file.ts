import { join } from 'node:path';
import { printable } from '@sluice/cli';
import { type Problem, problemCodes } from '@sluice/netfilter';
import * as v from 'valibot';
import type { Trust } from '../inbox/trust.ts';
import type { Attempt } from './fetch.ts';
import { fetchLimits } from './limits.ts';
import { readRecord, writeRecord } from './records.ts';

const number = v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(Number.MAX_SAFE_INTEGER));
const time = v.pipe(v.string(), v.isoTimestamp());
const text = v.pipe(v.string(), v.maxLength(fetchLimits.messageCharactersMax), v.transform(printable));

const problem = v.strictObject({ code: v.picklist(Object.keys(problemCodes)), message: text, hint: text });

const schema = v.strictObject({
  schema: v.literal(1),
  /** What it reads: `registry.example.com/sluice/shop:production`. */
  source: text,
  /** Since there is this file, over restarts. */
  attempts: number,
  bytes: number,
  /** In a row. */
  failures: number,
  /** When the last attempt ended, and the last one that found the placed release or a newer one. */
  attempted: time,
  succeeded: v.nullable(time),
  outcome: v.picklist(['same', 'placed', 'refused', 'failed']),
  /** Of the placed release; null before the first one. */
  serial: v.nullable(number),
  revision: v.nullable(number),
  problem: v.nullable(problem),
  /** Why the newest receipts are not sent to `receipts.push`; null: they are, or need not be. */
  receipts: v.optional(v.nullable(problem), null),
  /** The request of an operator that this attempt answers. */
  request: v.nullable(text),
});

/** What the fetch process says of itself, in `status.json` of its directory. */
export type SourceStatus = v.InferOutput<typeof schema>;

const pathIn = (directory: string): string => join(directory, 'status.json');

/**
 * Reads what the fetch process says.
 * @param trust whose file is read; left out: any
 * @returns undefined before its first attempt, or where the file is not one of its
 */
export const readSourceStatus = (directory: string, trust?: Trust): SourceStatus | undefined =>
  readRecord(pathIn(directory), schema, trust);

/** @throws the error of the file system */
export const writeSourceStatus = (directory: string, status: SourceStatus): void =>
  writeRecord(pathIn(directory), status);

/** An attempt that has ended. */
interface Ended {
  readonly attempt: Attempt;
  readonly source: string;
  readonly bytes: number;
  readonly now: string;
  readonly request: string | undefined;
}

/** The status after an attempt. @param before of the attempt before; undefined: it is the first one, ever */
export function statusAfter(
  before: SourceStatus | undefined,
  { attempt, source, bytes, now, request }: Ended,
): SourceStatus {
  const isGood = attempt.kind === 'same' || attempt.kind === 'placed';
  const placed = attempt.kind === 'placed' ? attempt.release : undefined;
  const why =
    attempt.kind === 'failed' ? attempt.problem : attempt.kind === 'refused' ? attempt.problems[0] : undefined;
  return {
    schema: 1,
    source: cut(source),
    attempts: (before?.attempts ?? 0) + 1,
    bytes: (before?.bytes ?? 0) + bytes,
    failures: isGood ? 0 : (before?.failures ?? 0) + 1,
    attempted: now,
    succeeded: isGood ? now : (before?.succeeded ?? null),
    outcome: attempt.kind,
    serial: placed?.serial ?? before?.serial ?? null,
    revision: placed ? (placed.revision ?? null) : (before?.revision ?? null),
    problem: why ? told(why) : null,
    receipts: before?.receipts ?? null,
    request: request === undefined ? null : cut(request),
  };
}

/**
 * Says in the status whether receipts are sent. Before the first attempt of all there is no status, and nothing is written.
 * @param why undefined: they are
 * @throws the error of the file system
 */
export function tellReceipts(directory: string, why: Problem | undefined): void {
  const status = readSourceStatus(directory);
  const receipts = why ? told(why) : null;
  if (status && status.receipts?.message !== receipts?.message) writeSourceStatus(directory, { ...status, receipts });
}

const told = ({ code, message, hint }: Problem) => ({ code, message: cut(message), hint: cut(hint) });
const cut = (words: string): string => printable(words).slice(0, fetchLimits.messageCharactersMax);
