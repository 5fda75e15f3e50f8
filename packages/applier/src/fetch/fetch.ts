import { fileDigest, type Release } from '@sluice/bundle';
import { reasonOf } from '@sluice/cli';
import { type Problem, refusal } from '@sluice/netfilter';
import { RegistryFailure } from '@sluice/transport/http/failure.ts';
import type { ReleaseGate } from '../inbox/release-gate.ts';
import type { FetchMemory } from './memory.ts';
import { type CheckedRelease, checkTop, RefusedRelease } from './check.ts';
import type { Digests, PlacedRelease } from './placed.ts';
import { type FoundRelease, invalidSource, type Source, SourceFailure, type SourceFiles } from './source.ts';

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
