import { baseFile, isVirtualSameEverywhere, resolveVirtual, type VirtualFile } from '@sluice/bundle';
import { type NftState, perKey, readNft, type ResolvedVirtualFile } from '@sluice/netfilter';
import { virtualAt } from '../bundle/files.ts';
import { type NodeOf, ReviewStopped, scopeOf } from '../bundle/node.ts';
import type { BundleView } from '../bundle/view.ts';

/**
 * The state of a node of mode nftables, as if the profile had only these Service files.
 * @throws ReviewStopped with the problems of the files
 */
export function nftStateOf(view: BundleView, node: NodeOf, paths: readonly string[]): NftState {
  const profile = node.file.profile;
  const all = [baseFile(profile, 'first', 'nft'), ...paths, baseFile(profile, 'last', 'nft')];
  const files = all.filter((path) => view.files.has(path)).map((path) => resolvedAt(view, node, path));
  const state = readNft(files);
  if ('problems' in state) throw new ReviewStopped(state.problems);
  // Nearly all Services leave the settings as they are: read once, they serve the tracer for all of them.
  const { settings, frontends } = state;
  return { settings: sameSettings(view, settings.join('\n'), () => settings), frontends };
}

const sameSettings = perKey<BundleView, NftState['settings']>();

/** Files that are the same on every node are resolved once, all others once per node. */
const same = perKey<VirtualFile, ResolvedVirtualFile>();
const ofNode = perKey<BundleView, ResolvedVirtualFile>();

function resolvedAt(view: BundleView, node: NodeOf, path: string): ResolvedVirtualFile {
  const file = virtualAt(view, path);
  const resolve = (): ResolvedVirtualFile => {
    const resolved = resolveVirtual(file, scopeOf(node, 'ipv4'), node.profile.families);
    if (!('path' in resolved)) throw new ReviewStopped(resolved);
    return resolved;
  };
  const isSame = isVirtualSameEverywhere(file) && !file.lines.some(({ text }) => text.includes('${profile.'));
  const { families } = node.profile;
  return isSame ? same(file, `${path} ${families.join()}`, resolve) : ofNode(view, `${node.name} ${path}`, resolve);
}
