import {
  type BundleTool,
  type Family,
  familyOf,
  type Mode,
  type Tool,
  type VirtualTool,
  virtualTools,
} from '@sluice/netfilter';
import { readPath } from '@sluice/bundle';

/** The rule tools, each with its family. */
export const tools = Object.entries(familyOf) as readonly (readonly [Tool, Family])[];

/** The tool of a family's rules. */
export const toolOf = { ipv4: 'iptables', ipv6: 'ip6tables' } as const satisfies Record<Family, Tool>;

/** The tools of the files of a mode for a family, in the order of loading. The first one's base files say that a profile has the family. */
export function toolsOf(mode: Mode, family: Family): readonly [BundleTool, ...BundleTool[]] {
  if (mode === 'nftables') return ['nft'];
  return mode === 'ipvs' ? [toolOf[family], ...virtualTools] : [toolOf[family]];
}

/** Whether a file has lines with guards instead of rules: all but those of iptables and ip6tables. */
export const hasLines = (tool: BundleTool): tool is VirtualTool | 'nft' =>
  tool === 'ipset' || tool === 'ipvs' || tool === 'nft';

/** The tool and kind of a file. @param path of a Service's file or a base file */
export function toolAt(path: string): {
  readonly tool: BundleTool;
  readonly kind: 'base' | 'service';
} {
  const what = readPath(path);
  if (what?.kind === 'base' || what?.kind === 'service') return { tool: what.tool, kind: what.kind };
  throw new TypeError(`Cannot find the tool of ${path}: it is neither a Service's file nor a base file`);
}
