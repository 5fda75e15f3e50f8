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

/**
 * Decides when changes are published: when a burst is over, within the minimum interval and the maximum delay. The first change after a
 * quiet period is published at once if it is one of endpoints, as by kube-proxy (`BoundedFrequencyRunner`), and collecting begins behind
 * it. Other objects wait for the rest of their burst: a node shall take a Service with its endpoints as one release. Endpoints prolong a
 * burst no longer than the minimum interval, also that of a Service among them: in a busy cluster they change all the time.
 */
export class Pacer {
  readonly #pace: Pace;
  #firstMs: number | undefined;
  /** The first change is published without waiting for others. */
  #isAtOnce = false;
  /** The last change of endpoints, and of other objects, since the last publication. */
  #endpointsMs = -Infinity;
  #othersMs = -Infinity;
  #publishedMs = Number.NEGATIVE_INFINITY;
  #retryMs: number | undefined;

  constructor(pace: Pace) {
    this.#pace = pace;
  }

  /** @param isEndpoints of a change of endpoints */
  changed(nowMs: number, isEndpoints: boolean): void {
    if (this.#firstMs === undefined) {
      const isQuiet = nowMs >= this.#publishedMs + this.#pace.minIntervalMs;
      this.#isAtOnce = isEndpoints && isQuiet && this.#retryMs === undefined;
    }
    this.#firstMs ??= nowMs;
    if (isEndpoints) this.#endpointsMs = nowMs;
    else this.#othersMs = nowMs;
  }

  published(nowMs: number): void {
    this.#firstMs = undefined;
    [this.#endpointsMs, this.#othersMs] = [-Infinity, -Infinity];
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
    if (this.#isAtOnce) return this.#firstMs;
    const { minIntervalMs, maxDelayMs } = this.#pace;
    const endpoints = Math.min(this.#endpointsMs + settleMs, this.#firstMs + minIntervalMs);
    const burst = Math.max(endpoints, this.#othersMs + settleMs);
    return Math.min(burst, this.#firstMs + maxDelayMs, this.#retryMs ?? Number.POSITIVE_INFINITY);
  }
}
