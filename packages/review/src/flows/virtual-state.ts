import { baseFile, isVirtualSameEverywhere, resolveVirtual, type VirtualFile } from '@sluice/bundle';
import {
  type Family,
  ipvsHost,
  type IpvsHost,
  type IpvsState,
  lineFamily,
  readIpvs,
  type ResolvedVirtualFile,
  Stopped,
  type VirtualTool,
} from '@sluice/netfilter';
import { addressesOf, type NodeOf, scopeOf } from '../bundle/node.ts';
import { toolAt } from '../bundle/tools.ts';
import { virtualAt } from '../bundle/files.ts';
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
      .map((path) => resolvedAt(view, node, family, path));
  const state = readIpvs({ ipset: of('ipset'), ipvs: of('ipvs') }, [family], hostOf(node, family));
  if ('problems' in state) throw new Stopped(state.problems);
  return state;
}

/** Files that are the same on every node are resolved once. */
const same = new WeakMap<VirtualFile, Map<Family, ResolvedVirtualFile>>();

function resolvedAt(view: BundleView, node: NodeOf, family: Family, path: string): ResolvedVirtualFile {
  const file = virtualAt(view, path);
  const known = same.get(file)?.get(family);
  if (known) return known;
  const resolved = resolveVirtual(file, scopeOf(node, family), node.profile.families);
  if (!('path' in resolved)) throw new Stopped(resolved);
  const { tool } = toolAt(path);
  const lines = resolved.lines.filter(
    ({ text }) => text.startsWith('--set ') || lineFamily(tool as VirtualTool, text) === family,
  );
  const own = { path, lines };
  const isSame = isVirtualSameEverywhere(file) && !file.lines.some(({ text }) => text.includes('${profile.'));
  if (isSame) same.set(file, (same.get(file) ?? new Map<Family, ResolvedVirtualFile>()).set(family, own));
  return own;
}

/** Host values outside of the node: the addresses that are known of it. */
function hostOf(node: NodeOf, family: Family): IpvsHost {
  const own = addressesOf(node, family);
  return ipvsHost(node.profile, { ipv4: family === 'ipv4' ? own : [], ipv6: family === 'ipv6' ? own : [] });
}
