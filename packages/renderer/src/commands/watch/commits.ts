import type { BundleFiles } from '@sluice/bundle';
import { sleep } from '../../cluster/sleep.ts';
import type { Publication } from './publisher.ts';
import { BundleRepository } from './repository.ts';

/** The result of one push. */
export type PushResult =
  | { readonly kind: 'pushed' }
  /** @property isFetched whether the remote branch is known: then a rebase may help */
  | { readonly kind: 'rejected'; readonly why: string; readonly isFetched: boolean };

/** What becomes of publications: commits of a repository, or releases in a registry. */
export type Recorder = Pick<
  Commits,
  'isPushing' | 'add' | 'forget' | 'repair' | 'followRemote' | 'commit' | 'push' | 'rebase'
>;

/** The commits of a bundle directory: their objects, and the Git commands of each part of a commit. */
export class Commits {
  readonly isPushing: boolean;
  readonly #dir: string;
  readonly #repository: BundleRepository;
  readonly #about = new Set<string>();
  /** The objects of commits that are not pushed yet. */
  readonly #unpushed = new Set<string>();
  /** The last publication. */
  #files: BundleFiles = new Map();

  constructor(dir: string, isPushing: boolean) {
    this.#dir = dir;
    this.#repository = new BundleRepository(dir);
    this.isPushing = isPushing;
  }

  add({ about, files }: Pick<Publication, 'about' | 'files'>): void {
    this.#files = files;
    for (const thing of about) this.#about.add(thing);
  }

  /** Forgets what is not committed: another process takes over. */
  forget(): void {
    this.#about.clear();
  }

  /**
   * A git process may have been killed, for example by the OOM killer, and its lock or rebase makes every other git fail.
   * @returns what was done, in sentences
   */
  async repair(): Promise<readonly string[]> {
    return (await this.#repository.repair()).map((what) => `${this.#dir}: ${what}`);
  }

  /**
   * Continues from the remote branch, which another process may have pushed.
   * @returns why that failed
   */
  async followRemote(): Promise<string | undefined> {
    if (!this.isPushing) return undefined;
    const why = await this.#repository.fetch();
    if (why !== undefined) return `Cannot fetch ${this.#dir}: ${why}`;
    await this.#repository.follow();
    return undefined;
  }

  /**
   * Commits the directory, which must be complete and not change meanwhile.
   * @returns the first line of the message; undefined without changes
   * @throws Error with the message of Git
   */
  async commit(): Promise<string | undefined> {
    const about = [...this.#about];
    const message = await this.#repository.record({ about, files: this.#files });
    if (message === undefined) return undefined;
    for (const thing of about) {
      this.#about.delete(thing);
      this.#unpushed.add(thing);
    }
    return message;
  }

  /** Pushes after a pause. Does not touch the directory, so it may change meanwhile. */
  async push(pauseMs: number): Promise<PushResult> {
    if (pauseMs > 0) await sleep(pauseMs);
    const why = await this.#repository.push();
    if (why !== undefined) {
      const isFetched = (await this.#repository.fetch()) === undefined;
      return { kind: 'rejected', why: `Cannot push ${this.#dir}: ${why}`, isFetched };
    }
    this.#unpushed.clear();
    return { kind: 'pushed' };
  }

  /**
   * Rebases onto the remote branch. This may change the directory. A rebase that conflicts commits the directory as it is, so that must
   * be complete.
   * @throws Error with the message of Git
   */
  async rebase(): Promise<void> {
    await this.#repository.rebase({ about: [...this.#unpushed], files: this.#files });
  }
}
