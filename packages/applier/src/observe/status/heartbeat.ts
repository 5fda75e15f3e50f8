/** Whether the main loop makes progress. */
export class Heartbeat {
  readonly #monotonicMs: () => number;
  readonly #stallMs: number;
  #lastMs: number;

  /** @param stallMs how long the loop may make no progress */
  constructor(monotonicMs: () => number, stallMs: number) {
    this.#monotonicMs = monotonicMs;
    this.#stallMs = stallMs;
    this.#lastMs = monotonicMs();
  }

  /** The loop made progress. */
  beat(): void {
    this.#lastMs = this.#monotonicMs();
  }

  /** Why it counts as stalled; undefined while it makes progress. */
  get stall(): string | undefined {
    const silentMs = this.#monotonicMs() - this.#lastMs;
    const seconds = Math.round(silentMs / 1000);
    return silentMs < this.#stallMs ? undefined : `main loop has not made progress for ${seconds} s`;
  }
}
