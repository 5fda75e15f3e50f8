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
import { reasonOf } from '@sluice/cli';
import { type Problem, refusal } from '@sluice/netfilter';
import { RegistryFailure } from '@sluice/transport/http/failure.ts';
import type { ReleaseGate } from '../inbox/release-gate.ts';
import type { FetchMemory } from './memory.ts';
import type { Digests, PlacedRelease } from './placed.ts';
import { type FoundRelease, invalidSource, type Source, SourceFailure, type SourceFiles } from './source.ts';
import { sealOf } from '../inbox/files.ts';

/** How an attempt ended. Only `placed` changed a file of the release. */
export type Attempt =
  /** The source has what is placed. */
  | { readonly kind: 'same' }
  | { readonly kind: 'placed'; readonly release: Release; readonly files: number }
  /** What the source has must not reach this node: the same until the source has something else. */
  | { readonly kind: 'refused'; readonly problems: readonly Problem[] }
  /** The source cannot be read, or the disk takes no write. */
  | { readonly kind: 'failed'; readonly problem: Problem };

/** The node for which releases are fetched. */
export interface FetchNode {
  readonly name: string;
  /** With a record of its own of what was fetched: forks and older releases are refused. */
  readonly gate: ReleaseGate;
  readonly placed: PlacedRelease;
  readonly memory: FetchMemory;
  /** The time of day, for messages about certificates. */
  readonly nowMs: () => number;
}

/** One attempt: asks the source, fetches what is new, checks it as the daemon does, and puts it in place. It never throws. */
export async function fetchOnce(source: Source, node: FetchNode): Promise<Attempt> {
  const { memory, placed } = node;
  try {
    placed.recover();
    const found = await source.look();
    if (memory.isPlaced(source.name, found, placed.digest)) return { kind: 'same' };
    const before = memory.refusal(source.name, found);
    if (before) return { kind: 'refused', problems: before };
    return await fetchFound(source, found, node);
  } catch (error) {
    return { kind: 'failed', problem: problemOf(error, node.nowMs()) };
  } finally {
    source.close?.();
  }
}

async function fetchFound(source: Source, found: string, { gate, memory, name, placed }: FetchNode): Promise<Attempt> {
  let checked: CheckedRelease | undefined;
  try {
    const release = await source.open(async (top) => {
      checked = await checkTop(top, name, gate);
      return checked.profile;
    });
    const { files, release: signed } = checked as unknown as CheckedRelease;
    const written = await placed.place(files, verified(source.name, release, placed.lacks(files), files));
    if (typeof written !== 'number') return { kind: 'failed', problem: written };
    memory.place(source.name, found, placed.digest);
    release.placed?.();
    return { kind: 'placed', release: signed, files: written };
  } catch (error) {
    if (!(error instanceof RefusedRelease)) throw error;
    // This node could not judge it: no space, no tool, no keys.
    const own = error.problems.find(({ code }) => /^(?:NODE|SIGNERS)_/.test(code));
    if (own) return { kind: 'failed', problem: own };
    memory.refuse(source.name, found, error.problems);
    return { kind: 'refused', problems: error.problems };
  }
}

/**
 * The wanted files, each once and with the digest that the signed `SHA256SUMS` has for it.
 * @throws SourceFailure for another one, or when one does not come
 */
async function* verified(
  name: string,
  release: FoundRelease,
  wanted: ReadonlySet<string>,
  digests: Digests,
): AsyncGenerator<SourceFiles> {
  const missing = new Set(wanted);
  const take = (files: SourceFiles): SourceFiles => {
    const own = new Map([...files].filter(([path]) => missing.has(path)));
    for (const [path, text] of own) {
      if (fileDigest(text) !== digests.get(path))
        throw invalidSource(name, `${path} has another digest than in SHA256SUMS`);
      missing.delete(path);
    }
    return own;
  };
  yield take(release.top);
  if (missing.size > 0) for await (const files of release.read(new Set(missing))) yield take(files);
  const [first] = missing;
  if (first !== undefined) throw invalidSource(name, `${first} is listed in SHA256SUMS, but missing`);
}

function problemOf(error: unknown, nowMs: number): Problem {
  if (error instanceof RegistryFailure || error instanceof SourceFailure) return withClock(error.problem, nowMs);
  if ((error as NodeJS.ErrnoException).code === undefined) throw error;
  return refusal(
    'OUTPUT_UNWRITABLE',
    `Cannot place the release: ${reasonOf(error)}`,
    'Check the free space and the permissions of the fetch directory; the release before is still in place',
  );
}

/** A certificate that seems to be out of its time often means that the clock of the node is wrong. git may tell no more than a failure. */
function withClock(problem: Problem, nowMs: number): Problem {
  const [, which] = /certificate (?:is )?(not yet valid|has expired|verification failed)/i.exec(problem.message) ?? [];
  if (which === undefined) return problem;
  const clock = `the clock of this node says ${new Date(nowMs).toISOString().slice(0, 19)}Z`;
  return {
    ...problem,
    hint: `Check the clock first: ${clock}. If it is right, renew the certificate of the server, or set caFile`,
  };
}

/** A release that this node may have: its signatures, cluster, node and serial are those that the gate accepts. */
interface CheckedRelease {
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
async function checkTop(top: SourceFiles, node: string, gate: ReleaseGate): Promise<CheckedRelease> {
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
class RefusedRelease extends Error {
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
