import { limits } from '../limits.ts';
import type { Ports } from '../rollout/ports.ts';

/** The trial has ended by itself, or may have: whoever says so first, kernel or process, is right. */
export class Expired extends Error {
  override readonly name = 'Expired';

  constructor(why: string) {
    super(`the trial expired: ${why}`);
  }
}

/**
 * The time-out of the switch: turned on at the flip, renewed while all is well.
 *
 * A process that was stopped for longer than the time-out must not turn the switch on again: the kernel has gone back, and its
 * probes are old. A set cannot say "renew only what is there", so a renewal is allowed only while the last one is younger than the
 * time-out by a margin, by a clock that goes on while the machine sleeps, looked at before and after the call.
 */
export class Deadman {
  readonly #seconds: number;
  readonly #marginMs: number;
  readonly #ports: Pick<Ports, 'kernel' | 'clock'>;
  #renewedMs: number | undefined;
  /** Two renewals at once would empty each other's sets. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(seconds: number, ports: Pick<Ports, 'kernel' | 'clock'>) {
    this.#seconds = seconds;
    this.#marginMs = Math.min(limits.deadmanMarginMs, (seconds * 1000) / 3);
    this.#ports = ports;
  }

  /** The flip: filter's half first, which goes off last. */
  async start(): Promise<void> {
    await this.#inTurn(() => this.#turnOn());
  }

  /** Renews when a third of the time is over. @throws Expired when it may be too late */
  async renew(): Promise<void> {
    await this.#inTurn(async () => {
      if (this.#renewedMs === undefined) return;
      this.#check();
      if (this.#ports.clock.bootMs() - this.#renewedMs < (this.#seconds * 1000) / 3) return;
      await this.#turnOn();
    });
  }

  /** Renews as long as something is awaited that is no sign of anything, such as a slow answer. Who renews next is told of a failure. */
  async during<T>(work: () => Promise<T>): Promise<T> {
    const renew = (): void => void this.renew().catch(() => undefined);
    const timer = setInterval(renew, this.restMs / 4);
    try {
      return await work();
    } finally {
      clearInterval(timer);
      // One that is on its way must not turn the switch on behind whoever turns it off next.
      await this.#last;
    }
  }

  /** Renews whenever that was: right before the commit token. @throws Expired when it may be too late */
  async renewLate(): Promise<void> {
    await this.#inTurn(async () => {
      if (this.#renewedMs === undefined) return;
      this.#check();
      await this.#turnOn();
    });
  }

  async #inTurn(work: () => Promise<void>): Promise<void> {
    const turn = this.#last.then(work);
    this.#last = turn.catch(() => undefined);
    await turn;
  }

  /** The longest time that may pass until the next `renew`. */
  get restMs(): number {
    return (this.#seconds * 1000) / 3;
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
    // The same words each time: a version whose trial always ends so is known by them.
    throw new Expired(`its last renewal was too long ago for a time-out of ${this.#seconds} s`);
  }
}
