import { isThere } from '../state/files.ts';
import { type Accepted, completeFile, isProblem, readRelease, type ReleaseFeature } from '@sluice/bundle';
import { reasonOf } from '@sluice/cli';
import { type Problem, refusal } from '@sluice/netfilter';
import { descend, type OpenDirectory } from './descend.ts';
import { type Extent, PlainFiles, type Tree } from './files.ts';
import { GitTree } from './git.ts';
import { hasEntry } from './read.ts';
import type { ReleaseGate } from './release-gate.ts';
import { InboxError, type Trust } from './trust.ts';
import type { WaveGate, WaitingRelease } from './wave-gate.ts';

/** A bundle in the directory. */
export interface ArrivedBundle {
  readonly kind: 'bundle';
  readonly tree: Tree;
  /** The release, where signatures are required. */
  readonly release?: Accepted;
  /** It is signed as urgent: it does not wait because other releases failed. */
  readonly isUrgent?: boolean;
  /** It says that it may take away most Services. */
  readonly acceptsRemoval?: boolean;
  /** Warnings about a release that is accepted all the same. */
  readonly alarms?: readonly Problem[];
  /** The wave of this node is not open yet: the bundle is rehearsed and not applied. */
  readonly waits?: WaitingRelease;
  /** Its endpoints are live: what was released, without them, and its version for this node. */
  readonly live?: { readonly released: Tree; readonly version: string; readonly onlyEarly?: true };
}

/** The result of a look at the bundle directory. */
export type Arrival = (
  | ArrivedBundle
  /** The directory does not exist. That changes nothing: rules are never removed by absence. */
  | { readonly kind: 'absent' }
  | {
      readonly kind: 'refused';
      readonly problems: readonly Problem[];
      /** A writer is at work: looks ahead of its seal save time after it. */
      readonly isFilling?: boolean;
    }
) & {
  /** A release whose endpoints go on while none in the directory may be applied. */
  readonly meanwhile?: ArrivedBundle;
  /** What is said of live endpoints, which makes no node unhealthy: those of some Services are not taken, others are not in the release. */
  readonly note?: string;
  /** The directory of live endpoints is there and cannot be read, since a monotonic time. */
  readonly unreadLive?: { readonly why: string; readonly sinceMs: number };
};

/**
 * Finds complete bundles in one directory, which may be a link that is swapped, and reads each file as rarely as possible. The kind of a
 * directory is decided in this order: a Git work tree of its own, a release, output of `sluice render`, a folder of a Git work tree. A
 * directory that once was output of `sluice render` is never read as part of a larger work tree: while a writer is busy its mark is
 * missing, and HEAD is not what was meant.
 */
export class Inbox {
  readonly #directory: string;
  readonly #plain: PlainFiles;
  readonly #git: GitTree;
  readonly #trust: Trust | undefined;
  readonly #gate: ReleaseGate | undefined;
  readonly #waves: WaveGate | undefined;
  #wasRendered = false;

  /**
   * @param nowMs the time of day
   * @param trust whose files are accepted; left out where an operator named the directory and so vouches for it
   * @param gate which releases are accepted; left out where signatures are not required
   * @param waves when releases are applied; left out where nothing is
   */
  constructor(directory: string, nowMs: () => number, trust?: Trust, gate?: ReleaseGate, waves?: WaveGate) {
    this.#directory = directory;
    this.#trust = trust;
    this.#gate = gate;
    this.#waves = waves;
    this.#plain = new PlainFiles(nowMs, trust);
    this.#git = new GitTree(nowMs, trust);
  }

  /**
   * Looks at the directory. `tree` is the same value as at the last look when nothing changed.
   * @param extent `changed` after an event: files that the folders and the seal show to be unchanged are not checked one by one. A whole
   * look finds modes, owners and contents that were changed in place.
   */
  async look(extent: Extent = 'whole'): Promise<Arrival> {
    return (await this.#lookBy((top) => this.#read(top, extent))) as Arrival;
  }

  /**
   * A whole look that lets other work go on between its steps.
   * @param interrupt ends it when it aborts: more urgent work waits
   */
  async lookInSteps(interrupt: AbortSignal): Promise<Arrival | 'interrupted'> {
    return this.#lookBy((top) => this.#read(top, 'whole', interrupt));
  }

  async #lookBy(read: (top: OpenDirectory) => Promise<Tree | 'interrupted'>): Promise<Arrival | 'interrupted'> {
    try {
      using top = descend(this.#directory, this.#trust);
      const tree = await read(top);
      return tree === 'interrupted' ? tree : await this.#admit(tree);
    } catch (error) {
      if (error instanceof InboxError)
        return { kind: 'refused', problems: [problemOf(error)], ...(this.#plain.isFilling ? { isFilling: true } : {}) };
      const { code } = error as NodeJS.ErrnoException;
      if (code === 'ENOENT' && !isThere(this.#directory)) return { kind: 'absent' };
      const hint =
        code === 'ENOENT' || code === 'ELOOP'
          ? 'It changed while it was read and will be read again'
          : 'Check its permissions';
      return {
        kind: 'refused',
        problems: [problemOf(new InboxError(`Cannot read ${this.#directory}: ${reasonOf(error)}`, hint))],
      };
    }
  }

  /** Whether the last look read every file of a directory of plain files. */
  get wasWhole(): boolean {
    return this.#plain.wasWhole;
  }

  async #admit(tree: Tree): Promise<Arrival> {
    const verdict = await this.#gate?.check(tree);
    if (verdict?.kind === 'refused') return verdict;
    // An endpoint update waits for no wave: only its endpoints are applied.
    const waits = verdict?.release.onlyEndpoints ? undefined : await this.#waves?.check(tree.seal);
    if (waits && 'problems' in waits) return { kind: 'refused', problems: waits.problems };
    const required = verdict && !verdict.release.onlyEndpoints ? requiredBy(tree.seal) : [];
    return {
      kind: 'bundle',
      tree,
      ...(verdict ? { release: verdict.release, alarms: verdict.alarms } : {}),
      ...(required.includes('urgent') ? { isUrgent: true } : {}),
      ...(required.includes('accept-removal') ? { acceptsRemoval: true } : {}),
      ...(waits ? { waits } : {}),
    };
  }

  async #read(top: OpenDirectory, extent: Extent, interrupt?: AbortSignal): Promise<Tree | 'interrupted'> {
    if (hasEntry(top, '.git')) {
      const tree = await this.#git.read(top.path, extent);
      if (tree) return tree;
      throw new InboxError('Cannot use the Git work tree as a bundle: it has no commit', 'Commit the bundle');
    }
    this.#wasRendered ||= hasEntry(top, completeFile);
    const ofPlain = (): Tree | Promise<Tree | 'interrupted'> =>
      interrupt ? this.#plain.readInSteps(top, interrupt) : this.#plain.read(top, extent);
    if (this.#wasRendered || PlainFiles.isBundle(top)) return ofPlain();
    return (await this.#git.read(top.path, extent)) ?? ofPlain();
  }
}

/** @param seal of an accepted tree, whose signatures are verified */
function requiredBy(seal: Tree['seal']): readonly ReleaseFeature[] {
  const release = readRelease(seal?.release ?? '');
  return isProblem(release) ? [] : release.requires;
}

const problemOf = (error: InboxError): Problem => refusal(error.code, error.message, error.hint);
