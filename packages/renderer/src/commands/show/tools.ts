import type { ResolvedNode } from '@sluice/bundle';
import type { ShownHost } from './host.ts';
import { rulesTool } from './iptables.ts';
import { virtualTool } from './ipvs.ts';
import { tableTool } from './nftables.ts';
import type { Shown, ShownTool, ShowTool } from './tool.ts';

/** The tools in the order of loading: rules refer to sets. */
export const shownTools = {
  ipset: virtualTool('ipset'),
  iptables: rulesTool('iptables'),
  ip6tables: rulesTool('ip6tables'),
  ipvs: virtualTool('ipvs'),
  nft: tableTool,
  sysctl: { loader: 'sysctl -p -', text: sysctlText, lines: () => [] },
} as const satisfies Record<ShowTool, ShownTool>;

export const toolsInOrder = Object.keys(shownTools) as readonly ShowTool[];

function sysctlText(node: ResolvedNode, { service }: Shown, host: ShownHost): string {
  if (service !== undefined) return '';
  const lines = node.sysctls.flatMap((line) => host.sysctl(line));
  return lines.map((line) => `${line}\n`).join('');
}
