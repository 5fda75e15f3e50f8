import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { receiptFile } from '@sluice/bundle';
import { type ReceiptStore } from '@sluice/transport/receipts/store.ts';
import { unpackReceipts } from '@sluice/transport/receipts/archive.ts';
import { invalidContent } from '@sluice/transport/http/failure.ts';
import { afterAll, beforeEach, expect, test } from 'vitest';
import { nothingSent, type SendRecord, sendReceipts } from './send.ts';

const scratch = mkdtempSync(join(tmpdir(), 'sluiced-send-'));
const directory = join(scratch, 'receipts');
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

/** A store in memory, which fails while it is asked to. */
class MemoryStore implements ReceiptStore {
  readonly name = 'memory';
  readonly written: Uint8Array[] = [];
  failure: Error | undefined;

  read(): Promise<ReadonlyMap<string, Uint8Array>> {
    return Promise.resolve(new Map());
  }

  write(_node: string, archive: Uint8Array): Promise<void> {
    if (this.failure) return Promise.reject(this.failure);
    this.written.push(archive);
    return Promise.resolve();
  }
}

let store: MemoryStore;
beforeEach(() => {
  store = new MemoryStore();
  rmSync(directory, { recursive: true, force: true });
});
function write(number: number, node = 'node-a'): void {
  mkdirSync(directory, { recursive: true });
  const path = join(directory, receiptFile({ node, number }));
  writeFileSync(`${path}.sig`, `signature ${number}`);
  writeFileSync(path, `receipt ${number}`);
}
const send = (record: SendRecord, nowMs: number) =>
  sendReceipts({ node: 'node-a', directory, open: () => store, intervalMs: 30_000 }, record, nowMs);
const numbersOf = (archive: Uint8Array | undefined) => {
  const read = unpackReceipts('sent', 'node-a', archive ?? new Uint8Array());
  return typeof read === 'string' ? read : read.map(({ number }) => number);
};

test('sends nothing before the first receipt, then what is new, one archive an interval', async () => {
  expect((await send(nothingSent, 0)).outcome).toEqual({ kind: 'none' });
  write(1);
  write(1, 'node-b');
  const first = await send(nothingSent, 0);
  expect(first.outcome).toMatchObject({ kind: 'sent', receipts: 1 });
  write(2);
  write(3);
  expect((await send(first.record, 29_999)).outcome).toEqual({ kind: 'waiting', untilMs: 30_000 });
  const second = await send(first.record, 30_000);
  expect(second.outcome).toMatchObject({ kind: 'sent', receipts: 3 });
  expect((await send(second.record, 60_000)).outcome).toEqual({ kind: 'unchanged' });
  expect(store.written.map(numbersOf)).toEqual([[1], [3, 2, 1]]);
});

test('backs off after failures, up to a ceiling, and sends the newest once the store takes it', async () => {
  write(1);
  store.failure = invalidContent('the store', 'it is broken');
  let record = nothingSent;
  let nowMs = 0;
  const waits: number[] = [];
  for (let attempt = 0; attempt < 8; attempt++) {
    const { outcome, record: next } = await send(record, nowMs);
    expect(outcome).toMatchObject({ kind: 'failed', problem: { code: 'REGISTRY_INVALID' } });
    waits.push(next.notBeforeMs - nowMs);
    record = next;
    nowMs = next.notBeforeMs;
  }
  expect(waits.map((ms) => ms / 1000)).toEqual([30, 60, 120, 240, 480, 600, 600, 600]);
  write(2);
  store.failure = undefined;
  const sent = await send(record, nowMs);
  expect(sent.outcome).toMatchObject({ kind: 'sent', receipts: 2 });
  expect(sent.record.failures).toBe(0);
});

test.each([
  ['a link', () => symlinkSync('/etc/passwd', join(directory, receiptFile({ node: 'node-a', number: 9 }))), undefined],
  [
    'a receipt that others can write',
    () => {
      write(9);
      chmodSync(join(directory, receiptFile({ node: 'node-a', number: 9 })), 0o666);
    },
    'RECEIPT_INVALID',
  ],
])('%s among receipts is not sent, and said', async (_title, prepare, code) => {
  write(1);
  prepare();
  const { outcome } = await send(nothingSent, 0);
  expect(outcome).toMatchObject({ kind: 'failed', problem: { code: code ?? 'OUTPUT_UNWRITABLE' } });
  expect(store.written).toEqual([]);
});

test('a store whose disk is full is a failure in words', async () => {
  write(1);
  store.failure = Object.assign(new Error('write failed'), { code: 'ENOSPC', syscall: 'write' });
  const { outcome } = await send(nothingSent, 0);
  expect(outcome).toMatchObject({
    kind: 'failed',
    problem: { message: 'Cannot send receipts to memory: no space left on device' },
  });
});
