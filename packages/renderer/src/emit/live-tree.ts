import { compareText, differing, type Problem } from '@sluice/netfilter';
import { completeText, fileDigest, RecentChanges } from '@sluice/bundle';
import { planTree, writeTree } from './tree.ts';

/** The files that one publication wrote and removed. Paths are sorted. */
export interface Published {
  readonly written: readonly string[];
  readonly removed: readonly string[];
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
  #files: ReadonlyMap<string, string> | undefined;
  readonly #digests = new Map<string, string>();
  #recent: RecentChanges | undefined;

  constructor(dir: string) {
    this.#dir = dir;
  }

  /** The text of a file in the last publication. */
  text(path: string): string | undefined {
    return this.#files?.get(path);
  }

  /** True while the directory has exactly the last publication: false after a failed one, which may be incomplete. */
  get isWhole(): boolean {
    return this.#files !== undefined;
  }

  /** Marks the content of the directory as unknown. */
  forget(): void {
    this.#files = undefined;
  }

  /**
   * Writes these files and removes all others.
   * @returns the changed files, or `OUTPUT_NOT_A_BUNDLE` when the directory has a foreign file
   * @throws errors of the file system; the next call then compares everything again
   */
  publish(files: ReadonlyMap<string, string>): Published | Problem {
    const before = this.#files;
    this.#files = undefined;
    if (before === undefined) {
      const plan = planTree(this.#dir, files);
      if ('code' in plan) return plan;
      writeTree(this.#dir, files, plan);
      this.#recent = new RecentChanges(plan.complete.text);
      this.#digests.clear();
      for (const [path, text] of files) this.#digests.set(path, fileDigest(text));
      this.#files = files;
      return { written: plan.write, removed: plan.remove };
    }
    const changed = differing(before, files);
    const written = changed.filter((path) => files.has(path)).toSorted(compareText);
    const removed = changed.filter((path) => !files.has(path)).toSorted(compareText);
    if (written.length + removed.length > 0) this.#write(files, { written, removed });
    this.#files = files;
    return { written, removed };
  }

  #write(files: ReadonlyMap<string, string>, { written, removed }: Published): void {
    for (const path of written) this.#digests.set(path, fileDigest(files.get(path) ?? ''));
    for (const path of removed) this.#digests.delete(path);
    const complete = { text: completeText(this.#digests), isThere: false };
    this.#recent = this.#recent?.with([...written, ...removed], complete.text);
    const plan = { write: written, remove: removed, complete, changes: this.#recent?.text };
    writeTree(this.#dir, files, plan, { flush: false });
  }
}
