import type { Extent } from '../inbox/files.ts';
import type { Arrival, Inbox } from '../inbox/inbox.ts';
import { limits } from '../limits.ts';

type LookedInbox = Pick<Inbox, 'look'> & Partial<Pick<Inbox, 'wasWhole'>>;

/** Looks into the bundle directory. How much of it is read: what changed; everything at a scan, less often where that is slow. */
export class Looks {
  readonly #inbox: LookedInbox;
  readonly #monotonicMs: () => number;
  #extent: Extent = 'whole';
  #wholeDueMs = -Infinity;

  constructor(inbox: LookedInbox, monotonicMs: () => number) {
    this.#inbox = inbox;
    this.#monotonicMs = monotonicMs;
  }

  /** The next look reads every file again. */
  readWhole(): void {
    this.#extent = 'whole';
  }

  /** A scan is due: it reads every file, unless that was slow a short time ago. */
  scan(): void {
    if (this.#monotonicMs() >= this.#wholeDueMs) this.readWhole();
  }

  async look(): Promise<Arrival> {
    const extent = this.#extent;
    this.#extent = 'changed';
    const beginMs = this.#monotonicMs();
    const arrival = await this.#inbox.look(extent);
    const nowMs = this.#monotonicMs();
    const againMs = Math.min((nowMs - beginMs) * limits.wholeLookFactor, limits.wholeLookMsMax);
    // A look behind an event reads everything where it must, as the first one of a bundle does: a scan need not do it again.
    if (extent === 'whole' || this.#inbox.wasWhole === true) this.#wholeDueMs = nowMs + againMs;
    return arrival;
  }
}
