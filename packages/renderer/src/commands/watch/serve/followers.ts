import type { ServerResponse } from 'node:http';
import { heartbeat } from '@sluice/transport/content/events.ts';
import { serveLimits } from './limits.ts';

/** What a follower is written to. */
type Stream = Pick<ServerResponse, 'write' | 'writableNeedDrain' | 'on' | 'end' | 'destroy'>;

/** What a stream has not taken yet. */
interface Backlog {
  readonly sinceMs: number;
  readonly event: string | undefined;
}

/**
 * The open streams of events. Only the newest event counts: one that reads slowly misses those between, and the server holds one event for
 * it, whatever happens meanwhile.
 */
export class Followers {
  /** Undefined: it takes all that is written. */
  readonly #streams = new Map<Stream, Backlog | undefined>();
  readonly #now: () => number;

  /** @param now monotonic, in milliseconds */
  constructor(now: () => number) {
    this.#now = now;
  }

  get count(): number {
    return this.#streams.size;
  }

  /** @param event the newest one; undefined: there is none yet */
  add(stream: Stream, event: string | undefined): void {
    this.#streams.set(stream, undefined);
    const forget = (): void => void this.#streams.delete(stream);
    stream.on('close', forget).on('error', forget);
    stream.on('drain', () => {
      if (!this.#streams.has(stream)) return;
      const waiting = this.#streams.get(stream)?.event;
      this.#streams.set(stream, undefined);
      if (waiting !== undefined) this.#write(stream, waiting);
    });
    if (event !== undefined) this.#write(stream, event);
  }

  /** Sends an event to each of them; it takes the place of one that waits. */
  tell(event: string): void {
    for (const [stream, backlog] of this.#streams)
      if (backlog === undefined) this.#write(stream, event);
      else this.#streams.set(stream, { ...backlog, event });
  }

  /** Sends a heartbeat, and ends those that have taken nothing for `stalledMs`. */
  beat(): void {
    for (const [stream, backlog] of this.#streams)
      if (backlog === undefined) this.#write(stream, heartbeat);
      else if (this.#now() - backlog.sinceMs >= serveLimits.stalledMs) stream.destroy();
  }

  /** Ends all of them in order: their clients go elsewhere. */
  end(): void {
    for (const stream of this.#streams.keys()) stream.end();
    this.#streams.clear();
  }

  #write(stream: Stream, text: string): void {
    if (!stream.write(text)) this.#streams.set(stream, { sinceMs: this.#now(), event: undefined });
  }
}
