import { setTimeout as sleep } from 'node:timers/promises';

/** How often something that is waited for is looked at. */
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
    if (performance.now() > end) throw new Error(`Waited ${timeoutMs / 1000} s in vain: ${what}`);
    await sleep(intervalMs);
  }
}
