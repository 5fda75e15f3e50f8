import type { Placement } from '@sluice/netfilter';

/** One transaction of mode nftables: the kernel takes all of it or nothing. */
export interface NftStep {
  readonly kind: 'nft';
  /** For `nft -f -`. */
  readonly text: string;
  readonly because: string;
  /** What another program added to the table, and the step removes: `chain x`. */
  readonly removes?: readonly string[];
  /** A pause before the step, for packets in flight. */
  readonly pauseMs?: number;
  /** What the table holds after it; undefined: there is none, or that is not known. */
  readonly leadsTo: Placement | undefined;
}
