import { setTimeout } from 'node:timers/promises';

/** Waits for a time or until the signal. */
export async function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  try {
    await setTimeout(ms, undefined, { signal });
  } catch (error) {
    if (signal?.aborted !== true) throw error;
  }
}
