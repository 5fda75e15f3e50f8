import { chainsOf, differing, emptyNft, type NftState, readFrontend } from '@sluice/netfilter';
import { listForm } from './forms.ts';

/**
 * Of mode nftables: the table, and the kinds of chains of its lists. Elements are no rules.
 * @returns the forms of what differs from another state
 */
export function nftForms(nft: NftState | undefined, before = emptyNft): ReadonlySet<string> {
  if (!nft) return new Set();
  const forms = new Set([`nft ${nft.settings[0]}`]);
  for (const key of differing(before.frontends, nft.frontends))
    for (const chain of chainsOf(readFrontend(key, nft.frontends.get(key) ?? []), 'a'))
      forms.add(`nft ${listForm(chain)}`);
  return forms;
}
