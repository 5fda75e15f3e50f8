import { expect, test } from 'vitest';
import type { WorkCost } from '../processor-time.ts';
import { Allowance } from './nft-counts.ts';

/** Runs a tool that takes so long. */
const use = (cost: WorkCost, ms: number) =>
  cost.of(async ({ onUsed }) => {
    onUsed?.(ms);
    return { exitCode: 0, stdout: '', stderr: '', why: '' };
  })({ file: '/usr/sbin/nft', args: [] });

/** Work of this cost, asked for every so often. @returns when it was done, in seconds */
async function done(costMs: number, everyMs: number, seconds: number): Promise<readonly number[]> {
  let nowMs = 0;
  const allowance = new Allowance({ share: 0.002, burstMs: 2_000 }, () => nowMs);
  const times: number[] = [];
  for (; nowMs <= seconds * 1_000; nowMs += everyMs) {
    const at = await allowance.spend(async (cost) => {
      await use(cost, costMs);
      return nowMs / 1_000;
    });
    if (at !== undefined) times.push(at);
  }
  return times;
}

test('cheap work is done each time', async () => {
  expect(await done(20, 10_000, 3_600)).toHaveLength(361);
});

test('expensive work that is asked for each second is done in its share of the time', async () => {
  const times = await done(1_600, 1_000, 7_200);
  expect(times.slice(0, 2)).toEqual([0, 1]);
  // 7,200 s at 0.2 % are 14.4 s, and 2 s at once.
  expect(times.length * 1.6).toBeGreaterThan(14.4);
  expect(times.length * 1.6).toBeLessThan(14.4 + 2 + 1.6);
});

test('expensive work that is asked for rarely is done each time', async () => {
  expect(await done(1_600, 900_000, 36_000)).toHaveLength(41);
});

test('work that fails has used its time', async () => {
  const allowance = new Allowance({ share: 0.002, burstMs: 100 }, () => 0);
  const failing = async (cost: WorkCost): Promise<never> => {
    await use(cost, 200);
    throw new Error('no nft');
  };
  await expect(allowance.spend(failing)).rejects.toThrow('no nft');
  expect(await allowance.spend(failing)).toBeUndefined();
});
