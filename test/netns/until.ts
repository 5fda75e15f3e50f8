import { setTimeout as sleep } from 'node:timers/promises';

/** Polls until `look` gives a value. Throws after ten seconds, or as many as are given. */
export async function until<T>(
  what: string,
  look: () => Promise<T | undefined | false>,
  timeoutMs = 10_000,
): Promise<T> {
  for (let tries = 0; tries < timeoutMs / 50; tries++) {
    const seen = await look();
    if (seen) return seen;
    await sleep(50);
  }
  throw new Error(`timed out after ${timeoutMs / 1000} s, waiting until ${what}`);
}
