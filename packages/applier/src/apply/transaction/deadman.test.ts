import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { FakeKernel } from '../../kernel/fake/fake.fixture.ts';
import { Deadman } from './deadman.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** A dead-man switch of 3 s, by the clock of the test. */
async function started(kernel = new FakeKernel()): Promise<Deadman> {
  await kernel.switch?.make([]);
  const clock = { now: () => Date.now(), bootMs: () => performance.now(), sleep: async () => undefined };
  const deadman = new Deadman(3, { kernel, clock });
  await deadman.start();
  return deadman;
}

test('during() renews the switch while a slow probe runs', async () => {
  const deadman = await started();
  const answer = deadman.during(async () => (await sleep(4_000), 'healthy'));
  await vi.advanceTimersByTimeAsync(4_000);
  expect(await answer).toBe('healthy');
  await deadman.renewLate();
});

test('renewLate() leaves a switch alone that was turned on just before', async () => {
  const kernel = new FakeKernel();
  const on = vi.spyOn(kernel.switch, 'on');
  const deadman = await started(kernel);
  await vi.advanceTimersByTimeAsync(299);
  await deadman.renewLate();
  expect(on).toHaveBeenCalledTimes(1);
  await vi.advanceTimersByTimeAsync(1);
  await deadman.renewLate();
  expect(on).toHaveBeenCalledTimes(2);
});

test('expires when work outlasts the time-out without a renewal', async () => {
  const deadman = await started();
  await vi.advanceTimersByTimeAsync(4_000);
  await expect(deadman.renewLate()).rejects.toThrow('the dead-man switch expired');
  await deadman.during(async () => undefined);
  await expect(deadman.renew()).rejects.toThrow('the dead-man switch expired');
});

test('during() returns only after a renewal in flight has ended', async () => {
  const kernel = new FakeKernel();
  const switchStates = kernel.switch;
  if (!switchStates) throw new Error('the fake has no switch');
  const deadman = await started(kernel);
  const on = switchStates.on.bind(switchStates);
  const { promise: begun, resolve } = Promise.withResolvers<void>();
  switchStates.on = async (seconds) => {
    resolve();
    await sleep(200);
    await on(seconds);
  };
  const during = deadman.during(() => begun);
  await vi.advanceTimersByTimeAsync(1_500);
  await during;
  for (const table of ['nat', 'filter'] as const) await switchStates.off(table);
  await vi.advanceTimersByTimeAsync(300);
  expect(await switchStates.look()).toEqual({ nat: 'off', filter: 'off' });
});
