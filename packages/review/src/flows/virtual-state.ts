import { resolvedAt } from '../bundle/files.ts';
import { baseFile } from '@sluice/bundle';
import {
  type Family,
  ipvsHost,
  type IpvsHost,
  type IpvsState,
  lineFamily,
  perKey,
  readIpvs,
  type ResolvedVirtualFile,
  type VirtualTool,
} from '@sluice/netfilter';
import { addressesOf, type NodeOf, readOrStop } from '../bundle/node.ts';
import { toolAt } from '../bundle/tools.ts';
import type { BundleView } from '../bundle/view.ts';

/**
 * The virtual servers, sets and addresses of a node of mode ipvs in one family, as if the profile had only these Service files.
 * @param paths of `.ipset` and `.ipvs` files, in the order of loading
 * @throws Stopped with the problems of the files
 */
export function stateOf(view: BundleView, node: NodeOf, family: Family, paths: readonly string[]): IpvsState {
  const profile = node.file.profile;
  const of = (tool: VirtualTool): readonly ResolvedVirtualFile[] =>
    [baseFile(profile, 'first', tool), ...paths.filter((path) => toolAt(path).tool === tool)]
      .filter((path) => view.files.has(path))
      .map((path) => fileAt(view, node, family, path, tool));
  return readOrStop(readIpvs({ ipset: of('ipset'), ipvs: of('ipvs') }, [family], hostOf(node, family)));
}

/** A file has both families. */
const linesOf = perKey<ResolvedVirtualFile, ResolvedVirtualFile>();

function fileAt(view: BundleView, node: NodeOf, family: Family, path: string, tool: VirtualTool): ResolvedVirtualFile {
  const file = resolvedAt(view, node, path, family);
  const isOwn = (text: string): boolean => text.startsWith('--set ') || lineFamily(tool, text) === family;
  return linesOf(file, family, () => ({ path, lines: file.lines.filter(({ text }) => isOwn(text)) }));
}

/** Host values outside of the node: the addresses that are known of it. */
function hostOf(node: NodeOf, family: Family): IpvsHost {
  const own = addressesOf(node, family);
  return ipvsHost(node.profile, { ipv4: family === 'ipv4' ? own : [], ipv6: family === 'ipv6' ? own : [] });
}
