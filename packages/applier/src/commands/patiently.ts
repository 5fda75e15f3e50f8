import { setTimeout } from 'node:timers/promises';
import { limits } from '../limits.ts';

/** What waiting goes by. */
export interface Time {
  readonly monotonicMs: () => number;
  readonly sleep: (ms: number) => Promise<unknown>;
}

const realTime: Time = { monotonicMs: () => performance.now(), sleep: (ms) => setTimeout(ms) };

/**
 * Does work that may fail once, on a machine that has much to do at its start: only what fails again is a reason to go back. What took
 * long to fail, as a tool that hangs, is not tried again, so that time is left to go back.
 */
export async function patiently<T>(work: () => Promise<T>, { monotonicMs, sleep }: Time = realTime): Promise<T> {
  const beginMs = monotonicMs();
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      const isLate = monotonicMs() - beginMs > limits.bootPatienceMs;
      if (isLate || attempt >= limits.bootAttemptsMax) throw error;
      await sleep(limits.rollbackIntervalMs);
    }
  }
}
