import type { BundleTool, Family } from '@sluice/netfilter';
import { nftReach, nftTextReach } from './nft-reach.ts';
import { type FileReach, reachOf } from './reach.ts';
import { linesReach, rulesReach, type TextReach } from './text-reach.ts';
import { virtualReach } from './virtual-reach.ts';

/** The packets that the text of a file can match. */
interface ReachReader {
  /** Exactly, in one family; and in the other one, where a file is read for both at once. */
  readonly whole: (text: string, family: Family) => { readonly reach: FileReach; readonly other?: FileReach };
  /** A superset, without parsing lines. */
  readonly fast: (text: string) => TextReach;
}

/** By the tool of a file. */
export const reachReaders: Readonly<Record<BundleTool, ReachReader>> = {
  iptables: { whole: (text, family) => ({ reach: reachOf(text, family) }), fast: rulesReach },
  ip6tables: { whole: (text, family) => ({ reach: reachOf(text, family) }), fast: rulesReach },
  ipset: { whole: (text, family) => ({ reach: virtualReach('ipset', text, family) }), fast: linesReach },
  ipvs: { whole: (text, family) => ({ reach: virtualReach('ipvs', text, family) }), fast: linesReach },
  nft: { whole: nftReachOf, fast: nftTextReach },
};

export const otherFamily = { ipv4: 'ipv6', ipv6: 'ipv4' } as const satisfies Record<Family, Family>;

function nftReachOf(text: string, family: Family): { readonly reach: FileReach; readonly other: FileReach } {
  const { [family]: reach, [otherFamily[family]]: other } = nftReach(text);
  return { reach, other };
}
