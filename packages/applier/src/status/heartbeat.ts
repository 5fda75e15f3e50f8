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

  get isAlive(): boolean {
    return this.silentMs < this.#stallMs;
  }

  get silentMs(): number {
    return this.#monotonicMs() - this.#lastMs;
  }
}
