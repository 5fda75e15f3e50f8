import { readOrStop } from '../../bundle/node.ts';
import type { ResolvedNode } from '@sluice/bundle';
import {
  type NftState,
  printFrontends,
  printNft,
  type Problem,
  readNft,
  readNftFiles,
  refusal,
  Stopped,
} from '@sluice/netfilter';
import { type NftPhase, nftPhases } from './nft-phases.ts';
import type { Shown, ShownTool } from './tool.ts';

/** The table of mode nftables. */
export const tableTool: ShownTool = {
  loader: 'nft -f -',
  text: nftText,
  // Its lines do not depend on the machine.
  lines: () => [],
};

/** The table with all elements, for a kernel without it; of one Service its elements and the chains of their lists. */
function nftText({ nft }: ResolvedNode, { service }: Shown): string {
  if (!nft) return '';
  return service === undefined ? printNft(readOrStop(readNft(nft))) : printFrontends(readOrStop(readNftFiles(nft)));
}

/**
 * The transactions that bring a node in mode nftables from one bundle to another.
 * @param from with the directory of its bundle
 */
export function releasePhases(from: readonly [dir: string, node: ResolvedNode], to: ResolvedNode): readonly NftPhase[] {
  const [old, desired] = [from, ['the bundle', to] as const].map(([dir, { node, nft }]): NftState => {
    if (!nft) throw new Stopped(noNftTable(node, dir));
    return readOrStop(readNft(nft));
  });
  return nftPhases(old!, desired!);
}

const noNftTable = (node: string, dir: string): Problem =>
  refusal(
    'CONFIG_UNSUPPORTED',
    `Cannot show a release of node ${node}: its profile in ${dir} is not in mode nftables`,
    'A change of the mode loads the whole table: remove --from',
  );
