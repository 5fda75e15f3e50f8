/** Every bound on commits and pushes. */
export const commitLimits = {
  /** Time after the last change until the commit. */
  settleMs: 1_000,
  /** Maximum time from a change to its commit. */
  maxDelayMs: 10_000,
  /** Pushes in one attempt, each after a rebase onto the remote branch. */
  pushesMax: 5,
  pushPauseMs: 1_000,
  /** Delay before a retry; doubles with each failure, up to `retryMaxMs`. */
  retryMs: 5_000,
  retryMaxMs: 60_000,
} as const;

export type CommitLimits = Readonly<Record<keyof typeof commitLimits, number>>;

/** When to commit: once for each burst of publications, and again after a failure. Times are monotonic, in milliseconds. */
export class CommitSchedule {
  readonly limits: CommitLimits;
  #dueMs: number | undefined;
  /** The time of the oldest uncommitted change. */
  #sinceMs: number | undefined;
  /** An earlier process may have written and not committed, or committed and not pushed. */
  #isFirst = true;
  /** The last publication is not committed, or not pushed. */
  #isUnfinished = false;
  /** Failed attempts in a row. */
  #failures = 0;

  constructor(limits: CommitLimits) {
    this.limits = limits;
  }

  get dueMs(): number | undefined {
    return this.#dueMs;
  }

  get hasFailed(): boolean {
    return this.#failures > 0;
  }

  /** @returns whether the publication is to be committed */
  published(hasChanges: boolean, nowMs: number): boolean {
    if (!hasChanges && !this.#isFirst && !this.#isUnfinished) return false;
    this.#isFirst = false;
    // A retry is already scheduled; an earlier one would fail again.
    if (this.#failures > 0 && this.#dueMs !== undefined) return true;
    const { settleMs, maxDelayMs } = this.limits;
    this.#sinceMs ??= nowMs;
    this.#dueMs = Math.max(nowMs, Math.min(nowMs + settleMs, this.#sinceMs + maxDelayMs));
    return true;
  }

  began(): void {
    this.#dueMs = undefined;
    this.#sinceMs = undefined;
    this.#isUnfinished = true;
  }

  succeeded(): void {
    this.#isUnfinished = false;
    this.#failures = 0;
  }

  /** Schedules a retry, also without another change: nodes that follow the repository have old rules until then. */
  failed(nowMs: number): void {
    const { retryMs, retryMaxMs } = this.limits;
    this.#dueMs ??= nowMs + Math.min(retryMs * 2 ** this.#failures, retryMaxMs);
    this.#failures += 1;
  }

  /** Forgets all: another process takes over. */
  reset(): void {
    this.#dueMs = undefined;
    this.#sinceMs = undefined;
    this.#isFirst = true;
    this.#failures = 0;
  }
}
