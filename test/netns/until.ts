import { setTimeout as sleep } from 'node:timers/promises';
import { isInGuest } from '../in-guest.ts';

/** The least number of looks: on a busy machine one may take as long as the whole time. */
const looksMin = 5;

/** The least time between two looks: in the guest their tools would take the processor from what they wait for. */
const pauseMs = isInGuest ? 1_000 : 50;

/** A guest is slow, and slower beside other tests. */
const usualMs = isInGuest ? 120_000 : 20_000;

/**
 * Polls until `look` gives a value.
 * @param timeoutMs how long it looks at least
 * @throws Error after that time
 */
export async function until<T>(
  what: string,
  look: () => Promise<T | undefined | false>,
  timeoutMs = usualMs,
): Promise<T> {
  const endMs = performance.now() + timeoutMs;
  for (let looks = 0; looks < looksMin || performance.now() < endMs; looks++) {
    const startMs = performance.now();
    const seen = await look();
    if (seen) return seen;
    // A look may start tools: a quarter of a processor at most is theirs.
    await sleep(Math.max(pauseMs, 3 * (performance.now() - startMs)));
  }
  throw new Error(`timed out after ${timeoutMs / 1000} s, waiting until ${what}`);
}
