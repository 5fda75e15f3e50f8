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
import { type Problem, refusal } from '@sluice/netfilter';
import { sealOf } from '../inbox/files.ts';
import type { ReleaseGate } from '../inbox/release-gate.ts';
import type { Digests } from './placed.ts';
import type { SourceFiles } from './source.ts';

/** A release that this node may have: its signatures, cluster, node and serial are those that the gate accepts. */
export interface CheckedRelease {
  readonly release: Release;
  readonly accepted: Accepted;
  /** Of the node. */
  readonly profile: string;
  /** The files of the node, signatures and openings among them. */
  readonly files: Digests;
}

/**
 * Checks a release by its beginning, as the daemon does: all of its other files have their digests in the signed `SHA256SUMS`.
 * @param top texts of `SHA256SUMS`, `release.yaml`, signatures, waves and openings; other files do not count
 * @returns what the node needs of it
 * @throws RefusedRelease: the node must not have it
 */
export async function checkTop(top: SourceFiles, node: string, gate: ReleaseGate): Promise<CheckedRelease> {
  const sums = top.get(sumsFile);
  if (sums === undefined) throw invalid('SHA256SUMS is missing');
  const named = readSums(sums);
  if (typeof named === 'string') throw invalid(`SHA256SUMS is not in the required format: ${named}`);
  if (!named.has(clusterFile)) throw invalid(`SHA256SUMS does not name ${clusterFile}`);
  const wrong = [...top].find(([path, text]) => isSealedFile(path) && named.get(path) !== fileDigest(text));
  if (wrong) throw invalid(`${wrong[0]} has another digest than in SHA256SUMS`);
  const seal = sealOf([...top.keys()], (path) => top.get(path));
  const verdict = await gate.check(seal ? { seal } : {});
  if (verdict.kind === 'refused') throw new RefusedRelease(verdict.problems);
  const release = readRelease(top.get(releaseFile) ?? '');
  if (isProblem(release)) throw new RefusedRelease([release]);
  const profile = release.nodes[node]?.profile ?? '';
  const beside = [...top].filter(([path]) => isReleaseFile(path) && !isSealedFile(path));
  const own = filesOfNode(named, node, profile);
  return {
    release,
    accepted: verdict.release,
    profile,
    files: new Map([...own, ...beside.map(([path, text]) => [path, fileDigest(text)] as const)]),
  };
}

/** What a source has must not reach this node. */
export class RefusedRelease extends Error {
  override readonly name = 'RefusedRelease';
  readonly problems: readonly Problem[];

  constructor(problems: readonly Problem[]) {
    super(problems[0]?.message ?? 'refused');
    this.problems = problems;
  }
}

function invalid(why: string): RefusedRelease {
  const message = `Cannot use what the source has: ${why}`;
  const hint = 'Publish the release again, as a whole';
  return new RefusedRelease([refusal('RELEASE_INVALID', message, hint)]);
}
