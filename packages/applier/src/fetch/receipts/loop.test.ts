import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { receiptFile } from '@sluice/bundle';
import { directoryReceipts } from '@sluice/transport/receipts/directory.ts';
import { afterAll, beforeEach, expect, test, vi } from 'vitest';
import { readSourceStatus, statusAfter, writeSourceStatus } from '../status-file.ts';
import { type ReceiptLoopParts, receiptLoop, sendAndTell, sentBefore } from './loop.ts';

const scratch = mkdtempSync(join(tmpdir(), 'sluiced-receipt-loop-'));
const at = (name: string): string => join(scratch, name);
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

const logged: string[] = [];
let parts: ReceiptLoopParts;
beforeEach(() => {
  for (const name of ['receipts', 'own', 'store']) rmSync(at(name), { recursive: true, force: true });
  for (const name of ['receipts', 'own']) mkdirSync(at(name));
  logged.length = 0;
  const open = () => directoryReceipts(at('store'));
  parts = {
    receipts: { node: 'node-a', directory: at('receipts'), open, intervalMs: 10 },
    directory: at('own'),
    log: { info: (_details, message) => logged.push(message), warn: (_details, message) => logged.push(message) },
  };
});
function write(number: number): void {
  const path = join(at('receipts'), receiptFile({ node: 'node-a', number }));
  writeFileSync(`${path}.sig`, 'signature');
  writeFileSync(path, 'receipt');
}

test('sends each new receipt until it is stopped', async () => {
  const end = new AbortController();
  const loop = receiptLoop(parts, end.signal);
  write(1);
  await vi.waitFor(() => expect(logged).toEqual(['sent receipts']));
  write(2);
  await vi.waitFor(() => expect(logged).toEqual(['sent receipts', 'sent receipts']));
  end.abort();
  await loop;
});

test('a new process does not send again what the one before has sent', async () => {
  write(1);
  expect((await sendAndTell(parts, sentBefore(at('own')))).outcome.kind).toBe('sent');
  expect((await sendAndTell(parts, sentBefore(at('own')))).outcome.kind).toBe('unchanged');
  writeFileSync(join(at('own'), 'receipts.json'), '{');
  expect((await sendAndTell(parts, sentBefore(at('own')))).outcome.kind).toBe('sent');
});

const told = () => readSourceStatus(at('own'))?.receipts?.message;

test('the status says why receipts are not sent, until they are, or need not be', async () => {
  const ended = { source: 'x', bytes: 0, now: '2026-12-01T12:00:00.000Z', request: undefined };
  writeSourceStatus(at('own'), statusAfter(undefined, { ...ended, attempt: { kind: 'same' } }));
  write(1);
  let { record } = await sendAndTell(parts, sentBefore(at('own')));
  expect(told()).toBeUndefined();
  // Others could write it: it is not sent.
  chmodSync(at('receipts'), 0o777);
  ({ record } = await sendAndTell(parts, { ...record, notBeforeMs: 0 }));
  expect(told()).toMatch(/writable by other users/);
  const before = told();
  expect((await sendAndTell(parts, { ...record, notBeforeMs: Infinity })).outcome.kind).toBe('waiting');
  expect(told()).toBe(before);
  chmodSync(at('receipts'), 0o755);
  expect((await sendAndTell(parts, { ...record, notBeforeMs: 0 })).outcome.kind).toBe('unchanged');
  expect(told()).toBeUndefined();
});

test('a lasting failure is logged once, and the end of it', async () => {
  write(1);
  writeFileSync(at('store'), 'not a directory');
  const end = new AbortController();
  const loop = receiptLoop(parts, end.signal);
  const failure = 'cannot send receipts; they are sent later';
  await vi.waitFor(() => expect(logged).toEqual([failure]));
  await new Promise((resolve) => setTimeout(resolve, 50));
  rmSync(at('store'));
  await vi.waitFor(() => expect(logged).toEqual([failure, 'sent receipts']));
  end.abort();
  await loop;
});
