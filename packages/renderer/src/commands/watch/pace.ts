/** The rate of publications. */
export interface Pace {
  /** Minimum time between two publications. */
  readonly minIntervalMs: number;
  /** Maximum time from a change to its publication. */
  readonly maxDelayMs: number;
}

/** Changes come in bursts, such as a Service with its endpoints; a burst ends this long after its last change. */
const settleMs = 20;
/** Delay before a retry after a failure. */
const retryMs = 5_000;

/** Decides when changes are published: when a burst is over, within the minimum interval and the maximum delay. */
export class Pacer {
  readonly #pace: Pace;
  #firstMs: number | undefined;
  #lastMs = 0;
  #publishedMs = Number.NEGATIVE_INFINITY;
  #retryMs: number | undefined;

  constructor(pace: Pace) {
    this.#pace = pace;
  }

  changed(nowMs: number): void {
    this.#firstMs ??= nowMs;
    this.#lastMs = nowMs;
  }

  published(nowMs: number): void {
    this.#firstMs = undefined;
    this.#publishedMs = nowMs;
    this.#retryMs = undefined;
  }

  /** Nothing was published: retries, also without another change. */
  failed(nowMs: number): void {
    this.published(nowMs);
    this.#retryMs = nowMs + retryMs;
  }

  /** When to publish; undefined without a change. */
  get dueMs(): number | undefined {
    const settled = this.#settledMs;
    if (settled === undefined) return undefined;
    return Math.max(settled, this.#publishedMs + this.#pace.minIntervalMs);
  }

  get #settledMs(): number | undefined {
    if (this.#firstMs === undefined) return this.#retryMs;
    const burst = Math.min(this.#lastMs + settleMs, this.#firstMs + this.#pace.maxDelayMs);
    return Math.min(burst, this.#retryMs ?? Number.POSITIVE_INFINITY);
  }
}
