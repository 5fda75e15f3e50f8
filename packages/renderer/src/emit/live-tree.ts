import { compareText, completeText, fileDigest, type Problem } from '@sluice/bundle';
import { planTree, writeTree } from './tree.ts';

/** What one publication did to the directory. Paths are sorted. */
export interface Published {
  readonly written: readonly string[];
  readonly removed: readonly string[];
}

/**
 * A bundle directory that one process keeps writing. The first time it is compared with what is on the disk; after that only files
 * that changed are touched and only their digests computed. `.sluice-complete` is away while files change, so whoever watches the
 * directory sees one bundle or the next.
 *
 * Invariant: nobody else writes here. Where somebody may have, `forget` makes the next publication compare everything again.
 */
export class LiveTree {
  readonly #dir: string;
  #files: ReadonlyMap<string, string> | undefined;
  readonly #digests = new Map<string, string>();

  constructor(dir: string) {
    this.#dir = dir;
  }

  /** The text that was published last. */
  text(path: string): string | undefined {
    return this.#files?.get(path);
  }

  /** True while the directory holds what was published last: not after a publication that failed, which may have ended halfway. */
  get isWhole(): boolean {
    return this.#files !== undefined;
  }

  /** What is in the directory is not known any more. */
  forget(): void {
    this.#files = undefined;
  }

  /**
   * Makes the directory hold these files.
   * @returns what changed, or `OUTPUT_NOT_A_BUNDLE` when it holds a file that no bundle has
   * @throws what the file system throws; the next call then compares everything again
   */
  publish(files: ReadonlyMap<string, string>): Published | Problem {
    const before = this.#files;
    this.#files = undefined;
    if (before === undefined) {
      const plan = planTree(this.#dir, files);
      if ('code' in plan) return plan;
      writeTree(this.#dir, files, plan);
      this.#digests.clear();
      for (const [path, text] of files) this.#digests.set(path, fileDigest(text));
      this.#files = files;
      return { written: plan.write, removed: plan.remove };
    }
    const written = [...files].filter(([path, text]) => before.get(path) !== text).map(([path]) => path);
    const removed = [...before.keys()].filter((path) => !files.has(path));
    if (written.length + removed.length > 0) this.#write(files, { written, removed });
    this.#files = files;
    return { written, removed };
  }

  #write(files: ReadonlyMap<string, string>, { written, removed }: Published): void {
    for (const path of written) this.#digests.set(path, fileDigest(files.get(path) ?? ''));
    for (const path of removed) this.#digests.delete(path);
    const complete = { text: completeText(this.#digests), isThere: false };
    writeTree(this.#dir, files, { write: written.toSorted(compareText), remove: removed, complete });
  }
}
