import { type Problem, refusal } from '../problem.ts';
import type { BundleTool, Family, VirtualTool } from '../family.ts';
import { nftFamily } from '../rules/nft-family.ts';

/** A line resolved for one node, still with `${host.*}`. */
export interface ResolvedLine {
  readonly text: string;
  readonly line: number;
}

/** A file resolved for one node. */
export interface ResolvedVirtualFile {
  readonly path: string;
  readonly lines: readonly ResolvedLine[];
}

/** A node's files of mode ipvs besides rules, in the order of loading. */
export interface ResolvedVirtual {
  readonly ipset: readonly ResolvedVirtualFile[];
  readonly ipvs: readonly ResolvedVirtualFile[];
}

/** Whether a line of an `.ipvs` file adds a virtual server; others add its real servers, with `-a`. */
export const isServerLine = (text: string): boolean => text.startsWith('-A ');

/** Whether the files of a tool are read with the `.ipvs` file beside them: both have the comment block of the Service. */
export const isSetsTool = (tool: BundleTool): tool is 'ipset' => tool === 'ipset';

/** The `.ipvs` file beside an `.ipset` file. */
export const serversFileOf = (path: string): string => path.replace(/ipset$/, 'ipvs');

/** The family of a line, by its addresses: those of IPv6 are in brackets, or in sets of their own; in `.nft` files by the name of the set. */
export function lineFamily(tool: VirtualTool | 'nft', text: string): Family {
  if (tool === 'nft') return nftFamily(text) ?? 'ipv4';
  return tool === 'ipvs' ? (text.includes('[') ? 'ipv6' : 'ipv4') : / KUBE-6-/.test(text) ? 'ipv6' : 'ipv4';
}

/** A problem with one line of a file. */
export const refusedLine = (path: string, line: number, why: string): Problem =>
  refusal(
    'RULE_REFUSED',
    `Cannot read line: ${why}`,
    'Files of a bundle are written by `sluice render`; render again with the same version rather than edit them',
    { at: { file: path, line, column: 1 } },
  );
