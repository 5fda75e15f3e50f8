import { compareText, differing, type Problem } from '@sluice/netfilter';
import { RecentChanges, RunningSeal } from '@sluice/bundle';
import { planTree, writeTree } from './tree.ts';

/** The files that one publication wrote and removed. Paths are sorted. */
export interface Published {
  readonly written: readonly string[];
  readonly removed: readonly string[];
}

/** What the directory has. */
interface LastPublication {
  readonly files: ReadonlyMap<string, string>;
  readonly seal: RunningSeal;
  readonly recent: RecentChanges;
}

/**
 * A bundle directory that one process writes repeatedly. The first publication compares it with the disk; after that only changed files
 * are written and only their digests computed. `.sluice-complete` is removed while files change, so a node sees one bundle or the next;
 * `.sluice-changes` tells it which files to read.
 *
 * Invariant: no other process writes here. If one may have, `forget` makes the next publication compare everything again.
 */
export class LiveTree {
  readonly #dir: string;
  #last: LastPublication | undefined;

  constructor(dir: string) {
    this.#dir = dir;
  }

  /** The text of a file in the last publication. */
  text(path: string): string | undefined {
    return this.#last?.files.get(path);
  }

  /** The last publication; undefined: the content of the directory is not known. */
  get files(): ReadonlyMap<string, string> | undefined {
    return this.#last?.files;
  }

  /** True while the directory has exactly the last publication: false after a failed one, which may be incomplete. */
  get isWhole(): boolean {
    return this.#last !== undefined;
  }

  /** Marks the content of the directory as unknown. */
  forget(): void {
    this.#last = undefined;
  }

  /**
   * Writes these files and removes all others.
   * @returns the changed files, or `OUTPUT_NOT_A_BUNDLE` when the directory has a foreign file
   * @throws errors of the file system; the next call then compares everything again
   */
  publish(files: ReadonlyMap<string, string>): Published | Problem {
    const last = this.#last;
    this.#last = undefined;
    if (last === undefined) {
      const plan = planTree(this.#dir, files);
      if ('code' in plan) return plan;
      writeTree(this.#dir, files, plan);
      this.#last = { files, seal: new RunningSeal(files), recent: new RecentChanges(plan.complete.text) };
      return { written: plan.write, removed: plan.remove };
    }
    const { seal } = last;
    let { recent } = last;
    const changed = differing(last.files, files);
    const written = changed.filter((path) => files.has(path)).toSorted(compareText);
    const removed = changed.filter((path) => !files.has(path)).toSorted(compareText);
    if (written.length + removed.length > 0) {
      seal.change(changed.map((path) => [path, files.get(path)]));
      const complete = { text: seal.text, isThere: false };
      recent = recent.with(changed, complete.text);
      const plan = { write: written, remove: removed, complete, changes: recent.text };
      writeTree(this.#dir, files, plan, { flush: false });
    }
    this.#last = { files, seal, recent };
    return { written, removed };
  }
}
