import { statSync } from 'node:fs';
import { type Accepted, completeFile, isProblem, type Problem, readRelease } from '@sluice/bundle';
import { descend, type OpenDirectory } from './descend.ts';
import { type Extent, PlainFiles, type Tree } from './files.ts';
import { GitTree } from './git.ts';
import { hasEntry } from './read.ts';
import type { ReleaseGate } from './release-gate.ts';
import { InboxError, type Trust } from './trust.ts';
import type { WaveGate, Waiting } from './wave-gate.ts';

/** What a look at the bundle directory found. */
export type Arrival =
  | {
      readonly kind: 'bundle';
      readonly tree: Tree;
      /** Where signatures are required: which release it is. */
      readonly release?: Accepted;
      /** Its signers say that it must not wait for what became of others. */
      readonly isUrgent?: boolean;
      /** What a person should know of a release that is taken all the same. */
      readonly alarms?: readonly Problem[];
      /** The wave of this node is not open yet: the bundle is to be rehearsed and not applied. */
      readonly waits?: Waiting;
    }
  /** The directory is not there. That changes nothing: removal is not a command. */
  | { readonly kind: 'absent' }
  | { readonly kind: 'refused'; readonly problems: readonly Problem[] };

/**
 * Finds complete bundles in one directory, which may be a link that is swapped, and reads each file as rarely as possible.
 * What a directory is, is decided in this order: a Git work tree of its own, a release, what `sluice render` wrote, a folder of
 * a Git work tree. A directory that once was what `sluice render` writes is never read as part of a larger work tree: while a
 * writer is busy its mark is missing, and HEAD is not what was meant.
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
   * @param trust whose files are taken; left out where a person names the directory and so vouches for it
   * @param gate which releases are taken; left out where signatures are not required
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
   * @param extent `changed` after an event: what the folders and the seal show to be unchanged is not asked file by file. Modes,
   * owners and contents that were changed in place are found by a whole look.
   */
  async look(extent: Extent = 'whole'): Promise<Arrival> {
    try {
      const top = descend(this.#directory, this.#trust);
      try {
        return await this.#admit(await this.#read(top, extent));
      } finally {
        top.close();
      }
    } catch (error) {
      if (error instanceof InboxError) return { kind: 'refused', problems: [problemOf(error)] };
      const { code, message } = error as NodeJS.ErrnoException;
      if (code === 'ENOENT' && !isThere(this.#directory)) return { kind: 'absent' };
      const hint =
        code === 'ENOENT' || code === 'ELOOP'
          ? 'It changed while it was read: it is read again'
          : 'Check its permissions';
      return {
        kind: 'refused',
        problems: [problemOf(new InboxError(`Cannot read ${this.#directory}: ${message}`, hint))],
      };
    }
  }

  async #admit(tree: Tree): Promise<Arrival> {
    const verdict = await this.#gate?.check(tree);
    if (verdict?.kind === 'refused') return verdict;
    // An update of endpoints waits for no wave: nothing else of it is taken.
    const waits = verdict?.release.onlyEndpoints ? undefined : await this.#waves?.check(tree.seal);
    if (waits && 'problems' in waits) return { kind: 'refused', problems: waits.problems };
    return {
      kind: 'bundle',
      tree,
      ...(verdict ? { release: verdict.release, alarms: verdict.alarms } : {}),
      ...(verdict && !verdict.release.onlyEndpoints && isUrgent(tree.seal) ? { isUrgent: true } : {}),
      ...(waits ? { waits } : {}),
    };
  }

  async #read(top: OpenDirectory, extent: Extent): Promise<Tree> {
    if (hasEntry(top, '.git')) {
      const tree = await this.#git.read(top.path, extent);
      if (tree) return tree;
      throw new InboxError('Cannot use the Git work tree as a bundle: it has no commit', 'Commit the bundle');
    }
    this.#wasRendered ||= hasEntry(top, completeFile);
    if (this.#wasRendered || PlainFiles.claims(top)) return this.#plain.read(top, extent);
    return (await this.#git.read(top.path, extent)) ?? this.#plain.read(top, extent);
  }
}

/** @param seal of a tree that was let in: who signed it has been seen to */
function isUrgent(seal: Tree['seal']): boolean {
  const release = readRelease(seal?.release ?? '');
  return !isProblem(release) && release.requires.includes('urgent');
}

function isThere(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false }) !== undefined;
}

function problemOf(error: InboxError): Problem {
  return { code: error.code, level: 'error', message: error.message, hint: error.hint };
}
