/** A change of the tables by another program. */
export interface ForeignChange {
  /** The program, where the kernel tells: `iptables-nft (process 4711)`. */
  readonly by: string | undefined;
  /** Some of the changes in our chains and jumps, each as the command that makes it; empty: none is known. */
  readonly what: readonly string[];
  /** No change was seen; only it is not known what happened for a while. */
  readonly isDoubt?: true;
}

/** Detects changes of the tables. */
export interface ChangeWatch {
  /** When `look` is to be called next, by the given clock. */
  readonly dueMs: number;
  /**
   * @returns a change since the last look, maybe one of none; unchanged: every change until now was reported, or there was none; unknown:
   *   this look could not find out
   */
  look(): Promise<ForeignChange | 'unchanged' | 'unknown'>;
  /** Sluice itself has changed the tables: earlier looks do not count. */
  forget(): void;
  close(): void;
}
