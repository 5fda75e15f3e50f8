import { setTimeout as sleep } from 'node:timers/promises';
import { reasonOf } from '@sluice/cli';
import { pauseBeforeRetry, retries, spread } from '../paces.ts';
import type { Attempt } from './fetch.ts';
import { fetchLimits } from './limits.ts';
import type { Servers } from './servers.ts';

/** What the follower works with. */
export interface FollowParts {
  readonly node: string;
  readonly servers: Servers;
  /** The events of a server: the `ETag` of its `index.json`, after each change. They end with its connection. */
  readonly events: (url: string, signal: AbortSignal) => AsyncIterable<string>;
  readonly log: { info(details: object, message: string): void; warn(details: object, message: string): void };
  readonly nowMs?: () => number;
}

/**
 * Follows the events of a source. An event is believed only in that it is worth a look: what an attempt finds then is checked as always, and
 * attempts that find nothing make the next events wait longer. While the source still shows the index of before, as from a cache between, it
 * is looked at again, with the same growing pauses.
 */
export class Follower {
  readonly #parts: FollowParts;
  readonly #nowMs: () => number;
  #isNews = false;
  /** The last event. */
  #told: { readonly url: string; readonly etag: string } | undefined;
  /** Ends the wait of the loop. */
  #wake = new AbortController();
  /** Attempts in a row that events asked for and that found nothing. */
  #misled = 0;
  #attemptedMs = Number.NEGATIVE_INFINITY;
  #isAsked = false;

  constructor(parts: FollowParts) {
    this.#parts = parts;
    this.#nowMs = parts.nowMs ?? (() => performance.now());
  }

  /** Follows until the signal: one server after the other, with pauses that grow once all of them failed. */
  async run(signal: AbortSignal): Promise<void> {
    const { log, node, servers } = this.#parts;
    let failures = 0;
    let said = '';
    for (let round = 0; !signal.aborted; round++) {
      for (const url of servers.inOrder) {
        let isFollowing = false;
        const why = await this.#follow(url, signal, () => {
          isFollowing = true;
          failures = 0;
          if (said !== url) log.info({ url }, 'follows the events of the source');
          said = url;
        });
        if (signal.aborted) return;
        if (said !== why)
          log.warn({ url, because: why }, 'cannot follow the events of the source: its interval counts');
        said = why;
        if (isFollowing) break;
      }
      const pauseMs = pauseBeforeRetry(failures++, retries.events) * (0.5 + spread(node, round));
      await sleep(pauseMs, undefined, { signal }).catch(() => undefined);
    }
  }

  /** @returns why it ended, in words */
  async #follow(url: string, signal: AbortSignal, following: () => void): Promise<string> {
    const { events, servers } = this.#parts;
    try {
      for await (const etag of events(url, signal)) {
        following();
        servers.reached(url);
        this.#told = { url, etag };
        if (this.#isBehind) this.#ask();
      }
      return 'the server ended the connection';
    } catch (error) {
      return reasonOf(error);
    }
  }

  #ask(): void {
    this.#isNews = true;
    this.#wake.abort();
  }

  /** Whether the last attempt read another `index.json` than the one of the last event. A proxy that packs answers weakens an `ETag`. */
  get #isBehind(): boolean {
    if (this.#told === undefined) return false;
    const { url, etag } = this.#told;
    return this.#parts.servers.memory(url).index?.etag.replace(/^W\//, '') !== etag;
  }

  /** Whether an event asks for an attempt now. */
  get isDue(): boolean {
    return this.#isNews && this.#nowMs() >= this.#dueMs;
  }

  get #dueMs(): number {
    return this.#attemptedMs + this.#pauseMs;
  }

  get #pauseMs(): number {
    return Math.min(fetchLimits.eventPauseMs * 2 ** this.#misled, fetchLimits.eventPauseMsMax);
  }

  /** Waits until an event asks for an attempt, at most for a time. */
  async wait(ms: number, signal: AbortSignal): Promise<void> {
    this.#wake = new AbortController();
    const wokenMs = this.#isNews ? Math.min(ms, Math.max(this.#dueMs - this.#nowMs(), 0)) : ms;
    await sleep(wokenMs, undefined, { signal: AbortSignal.any([signal, this.#wake.signal]) }).catch(() => undefined);
  }

  /** An attempt begins: it answers the events until now. */
  begin(): void {
    this.#isAsked = this.#isNews;
    this.#isNews = false;
  }

  /** @param outcome of the attempt: after a failure the loop tries again by itself */
  ended(outcome: Attempt['kind']): void {
    this.#attemptedMs = this.#nowMs();
    if (outcome === 'placed') this.#misled = 0;
    else if (this.#isAsked) this.#misled += 1;
    // Once the pause is the longest one, the interval counts.
    if (outcome !== 'failed' && this.#isBehind && this.#pauseMs < fetchLimits.eventPauseMsMax) this.#isNews = true;
  }
}
