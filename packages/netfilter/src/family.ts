export type Family = 'ipv4' | 'ipv6';
/** Both families, in the order of reports. */
export const families = ['ipv4', 'ipv6'] as const satisfies readonly Family[];
export type TableName = 'filter' | 'nat';

/** The tools whose files a bundle has, each with the family of its rules. */
export const familyOf = { iptables: 'ipv4', ip6tables: 'ipv6' } as const satisfies Record<string, Family>;
export type Tool = keyof typeof familyOf;
/** The tool of a family's rules. */
export const toolOf = { ipv4: 'iptables', ipv6: 'ip6tables' } as const satisfies Record<Family, Tool>;

/** The further tools of mode ipvs, each for both families, in the order of loading. */
export const virtualTools = ['ipset', 'ipvs'] as const;
export type VirtualTool = (typeof virtualTools)[number];

/** Every tool whose files a bundle may have; `nft` in mode nftables, for both families. */
export type BundleTool = Tool | VirtualTool | 'nft';

/** Whether the files of a tool have lines with guards instead of rules: all but those of iptables and ip6tables. */
export const hasLines = (tool: BundleTool): tool is Exclude<BundleTool, Tool> => !(tool in familyOf);
