import type { BundleFiles } from '@sluice/bundle';
import { families, type Problem } from '@sluice/netfilter';
import { nodeOf, ReviewStopped } from '../bundle/node.ts';
import { hasFamily, viewOf } from '../bundle/view.ts';
import { familiesOf } from '../facts/read.ts';
import { toolAt } from '../bundle/tools.ts';
import { programOf } from '../flows/program.ts';

/**
 * Why a node would refuse some Service files of its bundle. A trace reads only files that the packet can meet, and a file of
 * unknown rules seems to be one that it does not.
 * @param node which the bundle has
 * @param paths the Service files to read
 */
export function refusalOf(files: BundleFiles, node: string, paths: readonly string[]): Problem | undefined {
  const view = viewOf(files);
  if (!('index' in view)) return view[0];
  const profile = view.nodes.get(node)!.profile;
  try {
    for (const family of families) {
      if (!hasFamily(view, profile, family)) continue;
      const own = paths.filter((path) => files.has(path) && familiesOf(toolAt(path).tool).includes(family));
      programOf(view, nodeOf(view, node), family, own);
    }
    return undefined;
  } catch (error) {
    if (error instanceof ReviewStopped) return error.problems[0];
    throw error;
  }
}
