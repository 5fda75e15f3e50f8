/** The requests of a client used up what they may together. A retry is useless. */
export class OverBudget extends Error {
  override readonly name = 'OverBudget';
}

interface Bounds {
  readonly bytesPerSecondMax?: number;
  readonly bytesMax?: number;
  readonly secondsMax?: number;
  readonly signal?: AbortSignal;
}

/** What all requests of a client may use up together: bytes, their rate, and time. */
export class Budget {
  /** Bytes of bodies so far. */
  bytes = 0;
  /** Ends every request; undefined without a bound of time. */
  readonly signal: AbortSignal | undefined;
  readonly #bounds: Bounds;
  readonly #late: AbortSignal | undefined;
  /** When the bytes so far are paid for. */
  #paidAtMs = 0;

  constructor(bounds: Bounds) {
    const { secondsMax, signal } = bounds;
    this.#bounds = bounds;
    this.#late = secondsMax === undefined ? undefined : AbortSignal.timeout(secondsMax * 1000);
    const signals = [signal, this.#late].filter((one) => one !== undefined);
    this.signal = signals.length === 0 ? undefined : AbortSignal.any(signals);
  }

  /**
   * Counts bytes that were read.
   * @returns how long to wait before more are read, in milliseconds
   * @throws OverBudget
   */
  spend(bytes: number): number {
    const { bytesMax, bytesPerSecondMax } = this.#bounds;
    this.bytes += bytes;
    if (bytesMax !== undefined && this.bytes > bytesMax)
      throw new OverBudget(`the responses have more than ${bytesMax} bytes together`);
    if (bytesPerSecondMax === undefined) return 0;
    const nowMs = performance.now();
    this.#paidAtMs = Math.max(this.#paidAtMs, nowMs) + (bytes * 1000) / bytesPerSecondMax;
    return this.#paidAtMs - nowMs;
  }

  /** Why no request may go on, in words; undefined while they may. */
  ended(): string | undefined {
    if (this.#late?.aborted === true) return `it took longer than ${this.#bounds.secondsMax} s`;
    return this.#bounds.signal?.aborted === true ? 'cancelled' : undefined;
  }
}
