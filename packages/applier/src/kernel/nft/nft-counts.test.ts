import { expect, test } from 'vitest';
import type { Command, ToolResult } from '../command.ts';
import { WorkCost } from '../processor-time.ts';
import { Allowance, NftCounts } from './nft-counts.ts';

const done = (stdout = ''): ToolResult => ({ exitCode: 0, stdout, stderr: '', why: '' });

/** A table with one element that has counted 7 connections until it is deleted; each reading takes `costMs`. */
function counting(costMs: number) {
  const [lists, writes]: [string[], string[]] = [[], []];
  let isThere = true;
  const run = async ({ args, onUsed }: Command): Promise<ToolResult> => {
    const map = args.at(-1) ?? '';
    if (args.includes('-t')) return done('\t\tcounter\n');
    lists.push(map);
    if (map !== 'tcp4') return done();
    onUsed?.(costMs);
    return done(isThere ? 'elements = { 10.96.0.10 . 80 . 0 counter packets 7 bytes 420 : 10.244.1.5 . 8080 }' : '');
  };
  const allowance = new Allowance({ share: 0.002, burstMs: 2_000 }, () => 0);
  const counts = new NftCounts('/usr/sbin/nft', run, allowance);
  const write = (text: string): Promise<ToolResult> =>
    counts.around(text, async () => {
      writes.push(text);
      return done();
    });
  const remove = async (): Promise<void> => {
    await write('delete element inet sluice tcp4 { 10.96.0.10 . 80 . 0 }\n');
    isThere = false;
  };
  return { counts, lists, remove, write, writes };
}

const seven = [{ frontend: '10.96.0.10 . tcp . 80', endpoint: '10.244.1.5 . 8080', connections: 7 }];

test('keeps what an element counted that a transaction deletes, and reads its map alone', async () => {
  const { counts, lists, remove } = counting(1_600);
  await remove();
  expect(lists).toEqual(['tcp4']);
  expect(await counts.read(new WorkCost())).toEqual(seven);
});

test('writes without a reading where readings before it have used their time', async () => {
  const { counts, lists, remove, write, writes } = counting(1_600);
  for (let times = 0; times < 5; times++) await write('delete element inet sluice tcp4 { 10.96.0.99 . 80 . 0 }\n');
  await remove();
  expect(writes).toHaveLength(6);
  expect(lists).toEqual(['tcp4', 'tcp4']);
  expect(await counts.read(new WorkCost())).toEqual([]);
});

test('reads nothing where nothing is deleted', async () => {
  const { lists, write, writes } = counting(1);
  await write('add element inet sluice tcp4 { 10.96.0.10 . 80 . 1 : 10.244.1.6 . 8080 }\n');
  expect([lists, writes.length]).toEqual([[], 1]);
});
