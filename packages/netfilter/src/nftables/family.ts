import type { Family } from '../family.ts';

/** The family of a line of a `.nft` file; undefined for a text of another form. */
export function nftFamily(text: string): Family | undefined {
  const name = /^add element inet sluice [a-z]+([46]) /.exec(text)?.[1];
  return name === undefined ? undefined : name === '4' ? 'ipv4' : 'ipv6';
}
