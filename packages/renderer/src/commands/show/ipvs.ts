import type { ResolvedNode } from '@sluice/bundle';
import {
  fillHost,
  type IpvsHost,
  lineFamily,
  printServers,
  printSets,
  type Problem,
  readIpvs,
  type ResolvedVirtual,
  type VirtualTool,
} from '@sluice/netfilter';
import type { ShownHost } from './host.ts';
import type { Shown, ShownTool } from './tool.ts';

const loaders = { ipset: 'ipset restore -exist', ipvs: 'ipvsadm -R' } as const satisfies Record<VirtualTool, string>;

/** The sets, or the virtual servers, of mode ipvs. */
export const virtualTool = (tool: VirtualTool): ShownTool => ({
  loader: loaders[tool],
  text: (node, shown, host) => virtualText(node, tool, shown, host),
  lines: ({ ipvs }) => ipvs?.[tool].flatMap((file) => file.lines.map(({ text }) => text)) ?? [],
});

/** Sets or virtual servers: the lines of one Service, or all of them merged. */
function virtualText(
  node: ResolvedNode,
  tool: VirtualTool,
  options: Shown,
  host: ShownHost,
): string | readonly Problem[] {
  if (!node.ipvs) return '';
  if (options.service !== undefined) return fileLines(node.ipvs[tool], tool, host.ipvs);
  const state = readIpvs(node.ipvs, node.profile.families, host.ipvs);
  if ('problems' in state) return state.problems;
  return tool === 'ipset' ? printSets(state) : printServers(state);
}

function fileLines(files: ResolvedVirtual['ipset'], tool: VirtualTool, host: IpvsHost): string {
  const lines = files.flatMap((file) => file.lines.map(({ text }) => text));
  return lines
    .flatMap((text) => fillHost(text, { nodePortAddresses: host[lineFamily(tool, text)].nodePortAddresses }))
    .map((line) => `${line}\n`)
    .join('');
}
