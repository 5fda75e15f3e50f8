import type { Family } from '../family.ts';

/** The end of the names of sets, maps and chains of a family. */
export const familySuffix = { ipv4: '4', ipv6: '6' } as const satisfies Record<Family, string>;

/** The family of a line of a `.nft` file; undefined for a text of another form. */
export function nftFamily(text: string): Family | undefined {
  const name = /^add element inet sluice [a-z]+([46]) /.exec(text)?.[1];
  return name === undefined ? undefined : name === '4' ? 'ipv4' : 'ipv6';
}
