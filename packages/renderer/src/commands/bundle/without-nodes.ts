import { type BundleFiles, nodesOf } from '@sluice/bundle';
import type { Problem } from '@sluice/netfilter';

/** Warns about a bundle without nodes, which is valid and useless. */
export function withoutNodes(files: BundleFiles): readonly Problem[] {
  if (files.size === 0 || nodesOf(files).length > 0) return [];
  const message = 'Cannot find a node for these rules: neither the manifests nor sluice.yaml contain one';
  const hint =
    'Add Nodes to the input (`kubectl get nodes -o yaml`, `--base SNAPSHOT`), or list them in `nodes` of sluice.yaml';
  return [{ code: 'NODES_MISSING', level: 'warning', message, hint }];
}
