import type { BundleTool, Family } from '@sluice/netfilter';
import { nftReach, nftTextReach } from './nft-reach.ts';
import { type FileReach, reachOf } from './reach.ts';
import { linesReach, rulesReach, type TextReach } from './text-reach.ts';
import { virtualReach } from './virtual-reach.ts';

/** The packets that the text of a file can match. */
interface ReachReader {
  /** Exactly, in one family. */
  readonly whole: (text: string, family: Family) => FileReach;
  /** A superset, without parsing lines. */
  readonly fast: (text: string) => TextReach;
}

/** By the tool of a file. */
export const reachReaders = {
  iptables: { whole: reachOf, fast: rulesReach },
  ip6tables: { whole: reachOf, fast: rulesReach },
  ipset: { whole: (text, family) => virtualReach('ipset', text, family), fast: linesReach },
  ipvs: { whole: (text, family) => virtualReach('ipvs', text, family), fast: linesReach },
  nft: { whole: nftReach, fast: nftTextReach },
} as const satisfies Record<BundleTool, ReachReader>;
