/** How fast publications may follow each other. */
export interface Pace {
  /** The least time between two publications. */
  readonly minIntervalMs: number;
  /** No change waits longer than this, however fast others follow. */
  readonly maxDelayMs: number;
}

/** Changes come in bursts, such as a Service and its endpoints: so long after the last one it is taken to be over. */
const settleMs = 20;

/** When changes are published: soon after they settle, not more often than allowed, and never later than allowed. */
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

  /** When to publish what changed; undefined: nothing did. */
  get dueMs(): number | undefined {
    if (this.#firstMs === undefined) return undefined;
    const settled = Math.min(this.#lastMs + settleMs, this.#firstMs + this.#pace.maxDelayMs);
    return Math.max(settled, this.#publishedMs + this.#pace.minIntervalMs);
  }
}
