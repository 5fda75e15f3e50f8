import { resolvedAt } from '../bundle/files.ts';
import { baseFile } from '@sluice/bundle';
import { type NftState, perKey, readNft, readNftFiles, type ResolvedVirtualFile } from '@sluice/netfilter';
import { type NodeOf, readOrStop } from '../bundle/node.ts';
import type { BundleView } from '../bundle/view.ts';

/**
 * The state of a node of mode nftables, as if the profile had only these Service files.
 * @throws Stopped with the problems of the files
 */
export function nftStateOf(view: BundleView, node: NodeOf, paths: readonly string[]): NftState {
  const own = readNftFiles(filesAt(view, node, paths));
  const base = baseSettings(view, node.name, () => settingsOf(readWith(view, node, [])));
  // Nearly all Services leave the settings as they are: read once, they serve the tracer for all of them.
  if ('frontends' in own && base && own.settings.length === 0) return { settings: base, frontends: own.frontends };
  return readOrStop(readWith(view, node, paths));
}

type Read = ReturnType<typeof readNft>;

/** Of a node; undefined: its base files are refused. */
const baseSettings = perKey<BundleView, NftState['settings'] | undefined>();
const settingsOf = (read: Read): NftState['settings'] | undefined => ('problems' in read ? undefined : read.settings);

/** Some files of Services, between the base files. */
function readWith(view: BundleView, node: NodeOf, paths: readonly string[]): Read {
  const profile = node.file.profile;
  return readNft(filesAt(view, node, [baseFile(profile, 'first', 'nft'), ...paths, baseFile(profile, 'last', 'nft')]));
}

const filesAt = (view: BundleView, node: NodeOf, paths: readonly string[]): readonly ResolvedVirtualFile[] =>
  paths.filter((path) => view.files.has(path)).map((path) => resolvedAt(view, node, path));
