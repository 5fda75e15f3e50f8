export type Family = 'ipv4' | 'ipv6';
/** Both families, in the order of reports. */
export const families = ['ipv4', 'ipv6'] as const satisfies readonly Family[];
export type TableName = 'filter' | 'nat';

/** The tools whose files a bundle has, each with the family of its rules. */
export const familyOf = { iptables: 'ipv4', ip6tables: 'ipv6' } as const satisfies Record<string, Family>;
export type Tool = keyof typeof familyOf;

/** The further tools of mode ipvs, each for both families, in the order of loading. */
export const virtualTools = ['ipset', 'ipvs'] as const;
export type VirtualTool = (typeof virtualTools)[number];

/** Every tool whose files a bundle may have; `nft` in mode nftables, for both families. */
export type BundleTool = Tool | VirtualTool | 'nft';
