import { fileDigest } from '@sluice/bundle';

/** The pause after work: so many times what it took, within two bounds. A factor of 50 is 2 % of a processor. */
export interface Pace {
  readonly leastMs: number;
  readonly factor: number;
  readonly mostMs: number;
}

/** @param usedMs what the work took, in milliseconds. @returns the pause after it, in milliseconds */
export const pauseAfter = (usedMs: number, { leastMs, factor, mostMs }: Pace): number =>
  Math.min(Math.max(leastMs, usedMs * factor), mostMs);

/** The pause before work that failed is tried again. It doubles with each failure. */
interface Retry {
  readonly leastMs: number;
  readonly mostMs: number;
}

/** @param failures before this one. @returns the pause, in milliseconds */
export const pauseBeforeRetry = (failures: number, { leastMs, mostMs }: Retry): number =>
  Math.min(leastMs * 2 ** failures, mostMs);

/** A number from 0 to 1 that differs for each node and time: not all nodes do the same at once. */
export const spread = (node: string, time: number): number =>
  Number.parseInt(fileDigest(`${node} ${time}`).slice(0, 8), 16) / 2 ** 32;

/** All work of `sluiced` that repeats, and how much of a processor it may take. */
export const paces = {
  /** A rehearsal that failed: 5 %. It starts many tools, and in layout `flat` loads the whole program. */
  rehearsal: { leastMs: 0, factor: 20, mostMs: 10 * 60_000 },
  /**
   * A comparison of the tables after an event. 2 %: each is paid for by a pause. The first `comparisonsAtOnce` may run ahead of their pauses:
   * drift is repaired at once, also right after a start, and a program that repeats it raises the alarm of a drift loop before a pause.
   */
  comparison: { leastMs: 500, factor: 50, mostMs: Infinity },
  /**
   * A comparison without an event: 0.13 %. Where one takes longer than 0.75 s, the bound applies: drift without an event is found within it at
   * any cost.
   */
  comparisonUnasked: { leastMs: 0, factor: 800, mostMs: 10 * 60_000 },
  /** A comparison that made way for changes and begins again. */
  comparisonAgain: { leastMs: 0, factor: 50, mostMs: 30_000 },
  /**
   * A poll of the tables where there are no events: 2 %. At 10,000 Services in the legacy store a poll takes some 0.5 s, so removed rules are
   * found within 30 s; at 1,000 within 5 s.
   */
  poll: { leastMs: 2_000, factor: 50, mostMs: Infinity },
  /** A comparison of conntrack entries with the endpoints. */
  flows: { leastMs: 30_000, factor: 400, mostMs: Infinity },
  /** A count of the clients of session affinity: 1 %. */
  affinity: { leastMs: 60_000, factor: 100, mostMs: 30 * 60_000 },
  /** A reading of counters: 0.4 %. New connections and live ones are read apart; with `deletionReads` all is at most 1 %. */
  counts: { leastMs: 10_000, factor: 250, mostMs: 60 * 60_000 },
  /** A scan that reads every file of the bundle directory: 0.1 %. Bounded, as the first read copies every file and is slower than the next. */
  wholeLook: { leastMs: 0, factor: 1_000, mostMs: 10 * 60_000 },
  /** A look at a directory that a writer is filling: half of the time is left to the writer. */
  readAhead: { leastMs: 100, factor: 1, mostMs: Infinity },
  /** The rules as native text, for operators: 0.13 %. At 10,000 Services it is 25 MB, and at most so old; at 100 a matter of seconds. */
  nativeText: { leastMs: 0, factor: 750, mostMs: 5 * 60_000 },
  /** A collection that returns memory: 0.04 %, as much again on V8's own threads, and more often, the more can be returned. */
  collection: { leastMs: 10_000, factor: 2_500, mostMs: Infinity },
} as const satisfies Readonly<Record<string, Pace>>;

/** What is tried again after it failed. */
export const retries = {
  /** Connections that the kernel did not forget. */
  forgetting: { leastMs: 2_000, mostMs: 60_000 },
  /** What was lacking at the start. A node without IPv6 lacks it for good. */
  lacks: { leastMs: 5_000, mostMs: 10 * 60_000 },
  /** A rehearsal that could not run: an upper bound of the pause of `paces.rehearsal`. */
  rehearsal: { leastMs: 15_000, mostMs: 5 * 60_000 },
  /** A monitor of the kernel's changes that ended. */
  monitor: { leastMs: 1_000, mostMs: 10 * 60_000 },
  /** The stream of events of a source that ended, or that none of its servers has. */
  events: { leastMs: 1_000, mostMs: 60_000 },
};

/** Live endpoints: Services that are declined one by one, of more all others at once; how long a new release waits for ones that fit it. */
export const liveLimits = { declinedMax: 64, waitMs: 10_000 } as const;
