import type { ObservedNft } from './observed.ts';

/** What a node lacks for mode nftables, and how to get it. */
export interface NftLack {
  readonly why: string;
  readonly hint: string;
}

/** How the table of mode nftables is protected from other programs. */
export type NftProtection =
  /** Only this process can change or remove it, as long as it runs. */
  | { readonly kind: 'owned' }
  /** Every program with CAP_NET_ADMIN can; drift repair puts it back. */
  | { readonly kind: 'open'; readonly why: string };

/** The kernel's part of mode nftables. kernel/nft/nft-linux.ts and kernel/fake pass the same contract suite. */
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
  /**
   * Why the tool cannot write to this kernel; undefined: it can. Changes nothing.
   * @param again true: also where it could before; another program may have written what this nft cannot read
   */
  lack(again?: boolean): Promise<NftLack | undefined>;
}
