import {
  type Accepted,
  clusterFile,
  fileDigest,
  filesOfNode,
  isProblem,
  isReleaseFile,
  isSealedFile,
  readRelease,
  readSums,
  type Release,
  releaseFile,
  sumsFile,
} from '@sluice/bundle';
import type { Problem } from '@sluice/netfilter';
import { sealOf } from '../inbox/files.ts';
import type { ReleaseGate } from '../inbox/release-gate.ts';
import type { Digests } from './placed.ts';
import type { SourceFiles } from './source.ts';

/** A release that this node may have: its signatures, cluster, node and serial are those that the gate accepts. */
export interface CheckedRelease {
  readonly release: Release;
  readonly accepted: Accepted;
  /** The files of the node, signatures and openings among them. */
  readonly files: Digests;
}

/**
 * Checks a release by its beginning, as the daemon does: all of its other files have their digests in the signed `SHA256SUMS`.
 * @param top texts of `SHA256SUMS`, `release.yaml`, signatures, waves and openings; other files do not count
 * @returns what the node needs of it, or why the node must not have it
 */
export async function checkTop(
  top: SourceFiles,
  node: string,
  gate: ReleaseGate,
): Promise<CheckedRelease | { readonly problems: readonly Problem[] }> {
  const sums = top.get(sumsFile);
  if (sums === undefined) return invalid('SHA256SUMS is missing');
  const named = readSums(sums);
  if (typeof named === 'string') return invalid(`SHA256SUMS is not in the required format: ${named}`);
  if (!named.has(clusterFile)) return invalid(`SHA256SUMS does not name ${clusterFile}`);
  const wrong = [...top].find(([path, text]) => isSealedFile(path) && named.get(path) !== fileDigest(text));
  if (wrong) return invalid(`${wrong[0]} has another digest than in SHA256SUMS`);
  const seal = sealOf([...top.keys()], (path) => top.get(path));
  const verdict = await gate.check({ ...(seal ? { seal } : {}) });
  if (verdict.kind === 'refused') return verdict;
  const release = readRelease(top.get(releaseFile) ?? '');
  if (isProblem(release)) return { problems: [release] };
  const profile = release.nodes[node]?.profile ?? '';
  const beside = [...top].filter(([path]) => isReleaseFile(path) && !isSealedFile(path));
  const own = filesOfNode(named, node, profile);
  return {
    release,
    accepted: verdict.release,
    files: new Map([...own, ...beside.map(([path, text]) => [path, fileDigest(text)] as const)]),
  };
}

function invalid(why: string): { readonly problems: readonly Problem[] } {
  const message = `Cannot use what the source has: ${why}`;
  return { problems: [{ code: 'RELEASE_INVALID', level: 'error', message, hint: 'Publish the release again, as a whole' }] };
}
