import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { fetchLimits } from './limits.ts';
import { pauseAfterAttempt } from './loop.ts';
import { readSourceStatus, type SourceStatus, statusAfter, tellReceipts, writeSourceStatus } from './status-file.ts';

const scratch = mkdtempSync(join(tmpdir(), 'sluiced-loop-'));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

const now = '2026-12-01T12:00:00.000Z';
const ended = { source: 'registry.example.com/shop:1', bytes: 10, now, request: undefined };
const problem = { code: 'SOURCE_UNREACHABLE', level: 'error', message: 'Cannot reach it', hint: 'Wait' } as const;
const failed = (before?: SourceStatus): SourceStatus =>
  statusAfter(before, { ...ended, attempt: { kind: 'failed', problem } });

test('the pause is the interval, within a tenth, and differs by the node and the attempt', () => {
  const pauses = ['node-a', 'node-b', 'node-c'].flatMap((node) =>
    [1, 2, 3].map((attempts) => pauseAfterAttempt({ attempts, failures: 0, outcome: 'same' }, 60_000, node)),
  );
  expect(new Set(pauses).size).toBe(pauses.length);
  for (const pause of pauses) expect(Math.abs(pause - 60_000)).toBeLessThanOrEqual(6_000);
});

test.each([
  ['doubles with each failure', 3, 2_000, 8_000],
  ['has a ceiling', 30, 2_000, fetchLimits.pauseMsMax],
  ['is never shorter than the interval', 9, 3_600_000, 3_600_000],
])('the pause %s', (_title, failures, intervalMs, expected) => {
  const pause = pauseAfterAttempt({ attempts: 1, failures, outcome: 'failed' }, intervalMs, 'node-a');
  expect(Math.abs(pause / expected - 1)).toBeLessThanOrEqual(fetchLimits.jitterShare);
});

test('a refused release does not slow the loop down: the source may get another one', () => {
  const pause = pauseAfterAttempt({ attempts: 1, failures: 9, outcome: 'refused' }, 2_000, 'node-a');
  expect(pause).toBeLessThanOrEqual(2_200);
});

test('the status counts attempts, bytes and failures in a row, and keeps the last success', () => {
  const first = statusAfter(undefined, { ...ended, attempt: { kind: 'same' } });
  expect(first).toMatchObject({ attempts: 1, bytes: 10, failures: 0, succeeded: now, problem: null });
  const third = failed(failed({ ...first, succeeded: '2026-12-01T11:00:00.000Z' }));
  expect(third).toMatchObject({ attempts: 3, bytes: 30, failures: 2, succeeded: '2026-12-01T11:00:00.000Z' });
  expect(third.problem?.code).toBe('SOURCE_UNREACHABLE');
  writeSourceStatus(scratch, third);
  expect(readSourceStatus(scratch)).toEqual(third);
});

test('an attempt keeps what the status says of receipts, and a file of an older version says nothing of them', () => {
  const { receipts: _receipts, ...older } = failed();
  writeFileSync(join(scratch, 'status.json'), JSON.stringify(older));
  expect(readSourceStatus(scratch)).toEqual({ ...older, receipts: null });
  tellReceipts(scratch, problem);
  expect(failed(readSourceStatus(scratch))).toMatchObject({ attempts: 2, receipts: { message: 'Cannot reach it' } });
});

test.each([
  ['is not JSON', '{'],
  ['has a field too many', JSON.stringify({ ...failed(), more: 1 })],
  ['has a number that is none', JSON.stringify({ ...failed(), bytes: 1e300 })],
  ['has another schema', JSON.stringify({ ...failed(), schema: 2 })],
  ['is too large', JSON.stringify({ ...failed(), source: 'x'.repeat(fetchLimits.recordBytesMax) })],
  ['is empty', ''],
])('a status file that %s is not read', (_title, text) => {
  writeFileSync(join(scratch, 'status.json'), text);
  expect(readSourceStatus(scratch)).toBeUndefined();
});

test('control characters in the status file do not reach a terminal', () => {
  writeFileSync(join(scratch, 'status.json'), JSON.stringify({ ...failed(), source: 'a\u001B[2Jb' }));
  expect(readSourceStatus(scratch)?.source).not.toContain('\u001B');
});
