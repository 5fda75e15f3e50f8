import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { FakeKernel } from '../kernel/fake.ts';
import { Deadman } from './deadman.ts';

/** A dead-man of 3 s, by the clock of this machine. */
async function started(kernel = new FakeKernel()): Promise<Deadman> {
  await kernel.switch?.make();
  const clock = { now: () => Date.now(), bootMs: () => performance.now(), sleep: async () => undefined };
  const deadman = new Deadman(3, { kernel, clock });
  await deadman.start();
  return deadman;
}

test('a slow answer ends no trial while somebody is there to wait for it', async () => {
  const deadman = await started();
  expect(await deadman.during(async () => (await sleep(4_000), 'healthy'))).toBe('healthy');
  await deadman.renewLate();
});

test('what takes too long without a sign of life does', async () => {
  const deadman = await started();
  await sleep(4_000);
  await expect(deadman.renewLate()).rejects.toThrow('the trial expired');
  await expect(deadman.during(() => sleep(10)).then(() => deadman.renew())).rejects.toThrow('the trial expired');
});

test('a renewal that is on its way is over before anybody goes on', async () => {
  const kernel = new FakeKernel();
  const lamps = kernel.switch;
  if (!lamps) throw new Error('the fake has no switch');
  const deadman = await started(kernel);
  const on = lamps.on.bind(lamps);
  const { promise: begun, resolve } = Promise.withResolvers<void>();
  lamps.on = async (seconds) => {
    resolve();
    await sleep(200);
    await on(seconds);
  };
  await deadman.during(() => begun);
  for (const table of ['nat', 'filter'] as const) await lamps.off(table);
  await sleep(300);
  expect(await lamps.look()).toEqual({ nat: 'off', filter: 'off' });
});
