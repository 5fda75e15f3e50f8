import type { BundleTool, Family } from '@sluice/netfilter';
import { nftMatches, nftTextMatches } from './nft-matches.ts';
import { type FileMatches, ruleMatches } from './matches.ts';
import { lineTextMatches, ruleTextMatches, type TextMatches } from './text-matches.ts';
import { virtualMatches } from './virtual-matches.ts';

/** The packets that the text of a file can match. */
interface MatchReader {
  /** Exactly, in one family; and in the other one, where a file is read for both at once. */
  readonly whole: (text: string, family: Family) => { readonly matches: FileMatches; readonly other?: FileMatches };
  /** A superset, without parsing lines. */
  readonly fast: (text: string) => TextMatches;
}

/** By the tool of a file. */
export const matchReaders: Readonly<Record<BundleTool, MatchReader>> = {
  iptables: { whole: (text, family) => ({ matches: ruleMatches(text, family) }), fast: ruleTextMatches },
  ip6tables: { whole: (text, family) => ({ matches: ruleMatches(text, family) }), fast: ruleTextMatches },
  ipset: { whole: (text, family) => ({ matches: virtualMatches('ipset', text, family) }), fast: lineTextMatches },
  ipvs: { whole: (text, family) => ({ matches: virtualMatches('ipvs', text, family) }), fast: lineTextMatches },
  nft: { whole: nftMatchesOf, fast: nftTextMatches },
};

export const otherFamily = { ipv4: 'ipv6', ipv6: 'ipv4' } as const satisfies Record<Family, Family>;

function nftMatchesOf(text: string, family: Family): { readonly matches: FileMatches; readonly other: FileMatches } {
  const { [family]: matches, [otherFamily[family]]: other } = nftMatches(text);
  return { matches, other };
}
