import type { Extent } from '../inbox/files.ts';
import type { Arrival } from '../inbox/inbox.ts';
import { limits, paces, pauseAfter } from '../limits.ts';
import type { DaemonDependencies } from './dependencies.ts';

/**
 * Looks into the bundle directory. How much of it is read: what changed; everything at a scan, less often where that is slow, and later
 * where changes come meanwhile.
 */
export class Looks {
  readonly #inbox: DaemonDependencies['inbox'];
  readonly #monotonicMs: () => number;
  readonly #interrupt: () => AbortSignal;
  #next: Extent | 'scan' = 'whole';
  #wholeDueMs = -Infinity;
  /** When a scan was first interrupted, if no whole look was made since. */
  #lateSinceMs: number | undefined;

  /** @param interrupt aborts when a change of the directory, a stop or an order waits */
  constructor(inbox: DaemonDependencies['inbox'], monotonicMs: () => number, interrupt: () => AbortSignal) {
    this.#inbox = inbox;
    this.#monotonicMs = monotonicMs;
    this.#interrupt = interrupt;
  }

  /** The next look reads every file again. */
  readWhole(): void {
    this.#next = 'whole';
  }

  /** A scan is due: it reads every file, unless that was slow a short time ago. */
  scan(): void {
    if (this.#next === 'changed' && this.#monotonicMs() >= this.#wholeDueMs) this.#next = 'scan';
  }

  async look(): Promise<Arrival> {
    const extent = this.#next;
    this.#next = 'changed';
    const beginMs = this.#monotonicMs();
    const arrival = extent === 'scan' ? await this.#scan() : await this.#inbox.look(extent);
    if (arrival === 'interrupted') {
      this.#lateSinceMs ??= beginMs;
      return this.#inbox.look('changed');
    }
    // A look behind an event reads everything where it must, as the first one of a bundle does: a scan need not do it again.
    if (extent !== 'changed' || this.#inbox.wasWhole === true) this.#wasWhole(beginMs);
    return arrival;
  }

  /** A look at every file that makes way for changes, but not for too long. */
  async #scan(): Promise<Arrival | 'interrupted'> {
    const isLate = this.#monotonicMs() - (this.#lateSinceMs ?? Infinity) >= limits.wholeLookLateMsMax;
    if (isLate || !this.#inbox.lookInSteps) return this.#inbox.look('whole');
    return this.#inbox.lookInSteps(this.#interrupt());
  }

  #wasWhole(beginMs: number): void {
    const nowMs = this.#monotonicMs();
    this.#wholeDueMs = nowMs + pauseAfter(nowMs - beginMs, paces.wholeLook);
    this.#lateSinceMs = undefined;
  }
}
