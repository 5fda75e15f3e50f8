export interface Clock {
  /** Milliseconds since 1970, for what outlives the process. */
  now(): number;
  sleep(ms: number): Promise<void>;
  /** CLOCK_BOOTTIME: includes suspend, and cannot be set. */
  bootMs(): number;
}
