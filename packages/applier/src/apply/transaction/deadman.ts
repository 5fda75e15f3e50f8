import { limits } from '../../limits.ts';
import type { Ports } from '../../ports/ports.ts';

/** The dead-man switch has fired, or may have: the release must be rolled back. */
export class Expired extends Error {
  override readonly name = 'Expired';

  constructor(why: string) {
    super(`the dead-man switch expired: ${why}`);
  }
}

/**
 * The dead-man switch: turned on with a time-out at the cut-over, renewed while all is well.
 *
 * A process that was stopped for longer than the time-out must not turn the switch on again: the kernel has rolled back, and the answers
 * of the probes are stale. A set has no operation "renew only if present", so a renewal is allowed only while the last one is younger
 * than the time-out by a margin, by a clock that includes suspend, read before and after the call.
 */
export class Deadman {
  readonly #seconds: number;
  readonly #marginMs: number;
  readonly #ports: Pick<Ports, 'kernel' | 'clock'>;
  #renewedMs: number | undefined;
  /** The last call: two at once would empty each other's sets. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(seconds: number, ports: Pick<Ports, 'kernel' | 'clock'>) {
    this.#seconds = seconds;
    this.#marginMs = Math.min(limits.deadmanMarginMs, (seconds * 1000) / 3);
    this.#ports = ports;
  }

  /** Turns the switch on: filter's set first, which goes off last. */
  async start(): Promise<void> {
    await this.#serialised(() => this.#turnOn());
  }

  /** Renews the time-out once a third of it is over. @throws Expired when it may be too late */
  async renew(): Promise<void> {
    await this.#renewAfter(this.restMs);
  }

  async #renewAfter(ms: number): Promise<void> {
    await this.#serialised(async () => {
      if (this.#renewedMs === undefined) return;
      this.#check();
      if (this.#ports.clock.bootMs() - this.#renewedMs >= ms) await this.#turnOn();
    });
  }

  /** Renews while slow work, such as a probe, runs. A failed renewal is thrown by the next call of `renew`. */
  async during<T>(work: () => Promise<T>): Promise<T> {
    const renew = (): void => void this.renew().catch(() => undefined);
    const timer = setInterval(renew, this.restMs / 4);
    try {
      return await work();
    } finally {
      clearInterval(timer);
      // A renewal in flight must not turn the switch on after the caller has turned it off.
      await this.#last;
    }
  }

  /** Renews once a tenth of the time-out is over: right before the commit record. @throws Expired when it may be too late */
  async renewLate(): Promise<void> {
    await this.#renewAfter((this.#seconds * 1000) / 10);
  }

  async #serialised(work: () => Promise<void>): Promise<void> {
    const current = this.#last.then(work);
    this.#last = current.catch(() => undefined);
    await current;
  }

  /** The longest time that may pass until the next `renew`. */
  get restMs(): number {
    return (this.#seconds * 1000) / 3;
  }

  /** When the kernel turns it off unless it is renewed, by CLOCK_BOOTTIME; undefined: it is not on. */
  get deadlineMs(): number | undefined {
    return this.#renewedMs === undefined ? undefined : this.#renewedMs + this.#seconds * 1000;
  }

  async #turnOn(): Promise<void> {
    const { kernel, clock } = this.#ports;
    const beforeMs = clock.bootMs();
    await kernel.switch?.on(this.#seconds);
    this.#check();
    this.#renewedMs = beforeMs;
    this.#check();
  }

  #check(): void {
    if (this.#renewedMs === undefined) return;
    const ageMs = this.#ports.clock.bootMs() - this.#renewedMs;
    if (ageMs <= this.#seconds * 1000 - this.#marginMs) return;
    // No measured time in it: the same failure of the same version must have the same text each time.
    throw new Expired(`its last renewal is too old for a time-out of ${this.#seconds} s`);
  }
}
