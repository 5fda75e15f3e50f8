/** One answer of one probe. */
export interface ProbeResult {
  readonly name: string;
  readonly healthy: boolean;
  /** The answer in words, for the log and the reason of a rollback. */
  readonly seen: string;
}

/** The probes of the node. probe/probes.ts implements it. */
export interface Probes {
  readonly policies: readonly ProbePolicy[];
  /** The time between two rounds. */
  readonly intervalMs: number;
  /** Runs every probe once, in parallel. */
  once(): Promise<readonly ProbeResult[]>;
  /** Runs every probe as often as its policy needs for a verdict, in parallel. */
  untilVerdict(): Promise<readonly ProbeResult[]>;
}

/** When a probe counts as failed: `failures` of its last `window` answers were bad. */
export interface ProbePolicy {
  readonly name: string;
  /** The Service that it speaks for, `shop/cart`; left out: for none of its own. */
  readonly service?: string | undefined;
  readonly failures: number;
  readonly window: number;
}

/** Runs the probes around endpoint updates. Nothing waits for the verdict. */
export interface UpdateWatch {
  /** The probes that pass before an update; a slow one is left out. */
  before(): Promise<readonly string[]>;
  /** @param good the result of `before` @param changes Services and endpoints in words; called only if a probe fails */
  after(good: readonly string[], changes: () => string): void;
}
