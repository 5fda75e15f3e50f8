/** The rate of publications. */
export interface Pace {
  /** Minimum time between two publications. */
  readonly minIntervalMs: number;
  /** Maximum time from a change to its publication. */
  readonly maxDelayMs: number;
}

/** Changes come in bursts, such as a Service with its endpoints; a burst ends this long after its last change. */
const settleMs = 20;

/** Decides when changes are published: when a burst is over, within the minimum interval and the maximum delay. */
export class Pacer {
  readonly #pace: Pace;
  #firstMs: number | undefined;
  #lastMs = 0;
  #publishedMs = Number.NEGATIVE_INFINITY;

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
  }

  /** When to publish; undefined without a change. */
  get dueMs(): number | undefined {
    if (this.#firstMs === undefined) return undefined;
    const settled = Math.min(this.#lastMs + settleMs, this.#firstMs + this.#pace.maxDelayMs);
    return Math.max(settled, this.#publishedMs + this.#pace.minIntervalMs);
  }
}
