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
  /** When `look` is to be called next, by the given clock; Infinity where events report changes. */
  readonly dueMs: number;
  /** @returns a change since the last look; also when there was none */
  look(): Promise<ForeignChange | undefined>;
  /** Sluice itself has changed the tables: earlier looks do not count. */
  forget(): void;
  close(): void;
}
