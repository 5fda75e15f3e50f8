import type { ObservedNft } from './observed.ts';

/** The kernel's part of mode nftables. kernel/nft/nft-linux.ts and kernel/fake/nft-fake.ts pass the same contract suite. */
export interface NftKernel {
  /**
   * Reads the table.
   * @param interrupt aborts the call
   * @returns undefined if there is none
   * @throws Interrupted when, and only when, it was aborted
   */
  observe(interrupt?: AbortSignal): Promise<ObservedNft | undefined>;
  /** Whether there is a table. Reads no elements. */
  exists(): Promise<boolean>;
}
