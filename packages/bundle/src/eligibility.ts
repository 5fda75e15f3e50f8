import { isProblem, readCluster } from './documents.ts';
import { nodesOf } from './node.ts';
import type { BundleFiles } from './source.ts';
import { clusterFile, nodeFile } from './tree.ts';

/** Conditions of a Node that an administrator sets while it is drained, and afterwards (alpha in 1.37). kube-proxy does not read them. */
export const drainConditions = ['DrainInProgress', 'Drained'] as const;
const reasons = ['ToBeDeletedByClusterAutoscaler', 'deletionTimestamp', ...drainConditions] as const;

/** Why the cluster wants no new connections at a node: of the first two `nodeEligible` of kube-proxy is false, too (KEP-3836). */
export type Ineligibility = (typeof reasons)[number];

const form = new RegExp(`^# nodeEligible: false, (${reasons.join('|')})\n`);

/** The first line of a `node.yaml`. It is a comment, so that a reader that does not know it reads the same node, with the same version. */
export const ineligibilityLine = (why: Ineligibility | undefined): string =>
  why === undefined ? '' : `# nodeEligible: false, ${why}\n`;

/** What the first line of a `node.yaml` says; undefined: load balancers may send to the node. */
export const ineligibilityIn = (nodeText: string): Ineligibility | undefined =>
  form.exec(nodeText)?.[1] as Ineligibility | undefined;

/** What a bundle says of a node. One of a whole cluster that has other Nodes and not this one is of a cluster that deleted it. */
export function ineligibilityOf(files: BundleFiles, node: string): Ineligibility | undefined {
  const own = files.get(nodeFile(node));
  if (own !== undefined) return ineligibilityIn(own);
  const cluster = readCluster(clusterFile, files.get(clusterFile) ?? '');
  const isOfWhole = !isProblem(cluster) && cluster.complete && nodesOf(files).length > 0;
  return isOfWhole ? 'deletionTimestamp' : undefined;
}
