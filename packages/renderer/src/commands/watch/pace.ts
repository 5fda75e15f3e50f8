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
 * Budget of publications with Services, which are releases for a node: one in each interval, and so many at once after a quiet period.
 * kube-proxy waits a second between two syncs (`minSyncPeriod`).
 */
export const releaseBudget = { intervalMs: 700, burst: 3 } as const;

/**
 * Decides when changes are published: when a burst is over, within the minimum interval and the maximum delay. The first change after a
 * quiet period is published at once if it is one of endpoints, as by kube-proxy (`BoundedFrequencyRunner`), and collecting begins behind
 * it. Other objects wait for the rest of their burst: a node shall take a Service with its endpoints as one release. Endpoints prolong a
 * burst no longer than the minimum interval, also that of a Service among them: in a busy cluster they change all the time.
 *
 * Services that come and go all the time wait for the budget of releases, unless endpoints of another Service are due: removed ones shall
 * get no packets.
 */
export class Pacer {
  readonly #pace: Pace;
  #firstMs: number | undefined;
  /** The first change is published without waiting for others. */
  #isAtOnce = false;
  /** The last change of endpoints, and of other objects, since the last publication. */
  #endpointsMs = -Infinity;
  #othersMs = -Infinity;
  /** The other objects; undefined: endpoints of a Service that is not among them have changed, too. */
  #others: Set<string> | undefined = new Set();
  /** When the budget of releases will be whole again. */
  #wholeMs = -Infinity;
  #publishedMs = Number.NEGATIVE_INFINITY;
  #retryMs: number | undefined;

  constructor(pace: Pace) {
    this.#pace = pace;
  }

  /** @param isEndpoints of a change of endpoints @param about the Service of these, or the object */
  changed(nowMs: number, isEndpoints: boolean, about = ''): void {
    if (this.#firstMs === undefined) {
      const isQuiet = nowMs >= this.#publishedMs + this.#pace.minIntervalMs;
      this.#isAtOnce = isEndpoints && isQuiet && this.#retryMs === undefined;
    }
    this.#firstMs ??= nowMs;
    if (isEndpoints) this.#endpointsMs = nowMs;
    else this.#othersMs = nowMs;
    if (!isEndpoints) this.#others?.add(about);
    else if (this.#others?.has(about) === false) this.#others = undefined;
  }

  published(nowMs: number): void {
    if (this.#othersMs > -Infinity) this.#wholeMs = Math.max(this.#wholeMs, nowMs) + releaseBudget.intervalMs;
    this.#firstMs = undefined;
    [this.#endpointsMs, this.#othersMs] = [-Infinity, -Infinity];
    this.#others = new Set();
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
    return Math.max(settled, this.#publishedMs + this.#pace.minIntervalMs, this.#budgetMs);
  }

  /** When the budget has a release for the Services that changed, within the maximum delay. */
  get #budgetMs(): number {
    if (this.#firstMs === undefined || this.#others === undefined || this.#othersMs === -Infinity) return -Infinity;
    const { intervalMs, burst } = releaseBudget;
    return Math.min(this.#wholeMs - (burst - 1) * intervalMs, this.#firstMs + this.#pace.maxDelayMs);
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
