import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { FakeKernel } from '../kernel/fake.ts';
import { Deadman } from './deadman.ts';

/** A dead-man of 0.9 s, by the clock of this machine. */
async function started(): Promise<Deadman> {
  const kernel = new FakeKernel();
  await kernel.switch?.make();
  const clock = { now: () => Date.now(), bootMs: () => performance.now(), sleep: async () => undefined };
  const deadman = new Deadman(0.9, { kernel, clock });
  await deadman.start();
  return deadman;
}

test('a slow answer ends no trial while somebody is there to wait for it', async () => {
  const deadman = await started();
  expect(await deadman.during(async () => (await sleep(1_500), 'healthy'))).toBe('healthy');
  await deadman.renewLate();
});

test('what takes too long without a sign of life does', async () => {
  const deadman = await started();
  await sleep(1_500);
  await expect(deadman.renewLate()).rejects.toThrow('the trial expired');
  await expect(deadman.during(() => sleep(10)).then(() => deadman.renew())).rejects.toThrow('the trial expired');
});
