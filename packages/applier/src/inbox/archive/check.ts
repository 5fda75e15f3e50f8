import {
  type Accepted,
  fileDigest,
  isProblem,
  nodeFile,
  readPath,
  readRelease,
  type Release,
  releaseFile,
  summariseNode,
  sumsFile,
  treeDigest,
} from '@sluice/bundle';
import { type Problem, refusal } from '@sluice/netfilter';
import { checkSeal, sealOf, type Tree } from '../files.ts';
import type { ReleaseGate } from '../release-gate.ts';
import { InboxError } from '../trust.ts';

/** A release that this node could apply. */
export interface Checked {
  readonly release: Release;
  /** The digest of its `SHA256SUMS`. */
  readonly digest: string;
  /** Its signers, where signatures are required. */
  readonly accepted?: Accepted;
  /** Warnings for the operator. */
  readonly alarms: readonly Problem[];
}

/**
 * Checks the files of a release as the daemon does, before they are installed: digests, signatures, cluster, node, serial, and that the
 * node's rules are those that the release names.
 * @param gate left out where signatures are not required
 */
export async function checkRelease(
  files: ReadonlyMap<string, string>,
  node: string,
  gate: ReleaseGate | undefined,
): Promise<Checked | { readonly problems: readonly Problem[] }> {
  const tree = treeOf(files);
  if (isProblem(tree)) return { problems: [tree] };
  const verdict = await gate?.check(tree);
  if (verdict?.kind === 'refused') return verdict;
  const release = readRelease(files.get(releaseFile) ?? '');
  if (isProblem(release)) return { problems: [release] };
  const wrong = wrongForNode(files, release, node);
  if (wrong.length > 0) return { problems: wrong };
  const digest = fileDigest(files.get(sumsFile) as string);
  if (verdict === undefined) return { release, digest, alarms: [] };
  return { release, digest, accepted: verdict.release, alarms: verdict.alarms };
}

function treeOf(files: ReadonlyMap<string, string>): Tree | Problem {
  if (!files.has(sumsFile)) return invalid('SHA256SUMS is missing');
  const digests = new Map([...files].map(([path, text]) => [path, fileDigest(text)]));
  const text = (path: string): string | undefined => files.get(path);
  try {
    checkSeal(digests, text);
  } catch (error) {
    if (error instanceof InboxError) return invalid(error.message);
    throw error;
  }
  const seal = sealOf([...files.keys()], text);
  const rules = new Map([...files].filter(([path]) => readPath(path) !== undefined));
  return { files: rules, digest: treeDigest(digests), ...(seal ? { seal } : {}) };
}

function wrongForNode(files: ReadonlyMap<string, string>, release: Release, node: string): readonly Problem[] {
  const named = Object.hasOwn(release.nodes, node) ? release.nodes[node] : undefined;
  if (named === undefined || !files.has(nodeFile(node))) return [elsewhere(release.serial, node)];
  const resolved = summariseNode(files, node);
  if (!('version' in resolved)) return resolved;
  if (resolved.version === named.version) return [];
  return [invalid(`the rules of ${node} have version ${resolved.version}, release.yaml has ${named.version}`)];
}

const elsewhere = (serial: number, node: string): Problem =>
  refusal(
    'RELEASE_ELSEWHERE',
    `Cannot use the archive of release ${serial}: it has no rules for ${node}`,
    `Pack it for this node: sluice pack DIR --node ${node}`,
  );

const invalid = (why: string): Problem =>
  refusal(
    'RELEASE_INVALID',
    `Cannot use the archive: ${why}`,
    'Fetch it again, and compare its digest with the original',
  );
