import { setTimeout as sleep } from 'node:timers/promises';

/** The polling interval. */
const intervalMs = 200;

/**
 * Waits until `look` gives a value.
 * @param what for the error, such as `node-1 answers`
 * @throws when it gave none within `timeoutMs`
 */
export async function waitFor<T>(what: string, timeoutMs: number, look: () => Promise<T | undefined>): Promise<T> {
  const end = performance.now() + timeoutMs;
  for (;;) {
    const value = await look();
    if (value !== undefined) return value;
    if (performance.now() > end) throw new Error(`timed out after ${timeoutMs / 1000} s, waiting until ${what}`);
    await sleep(intervalMs);
  }
}
