import { setTimeout } from 'node:timers/promises';
import { limits } from '../../limits.ts';

/** The clock of a retry. */
export interface Time {
  readonly monotonicMs: () => number;
  readonly sleep: (ms: number) => Promise<unknown>;
}

const realTime: Time = { monotonicMs: () => performance.now(), sleep: (ms) => setTimeout(ms) };

/**
 * Retries work that fails, on a machine that is busy starting: only a repeated failure is a verdict. A try that took long, as with a tool
 * that hangs, is not repeated, so that time is left for a rollback.
 * @throws the error of the last try
 */
export async function untilVerdict<T>(work: () => Promise<T>, { monotonicMs, sleep }: Time = realTime): Promise<T> {
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
