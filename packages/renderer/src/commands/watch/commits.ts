import type { BundleFiles } from '@sluice/bundle';
import type { Publication, Publisher } from './publisher.ts';
import { BundleRepository } from './repository.ts';

/** Every bound on commits and pushes. */
export const commitLimits = {
  /** Time after the last change until the commit. */
  settleMs: 1_000,
  /** Maximum time from a change to its commit. */
  maxDelayMs: 10_000,
  /** Pushes in one attempt, each after a rebase onto the remote branch. */
  pushesMax: 5,
  pushPauseMs: 1_000,
  /** Delay before a retry; doubles with each failure, up to `retryMaxMs`. */
  retryMs: 5_000,
  retryMaxMs: 60_000,
} as const;

/** The publisher, as far as commits need it. */
export type HoldablePublisher = Pick<Publisher, 'isWhole' | 'hold' | 'release' | 'publishNow'>;

export interface CommitterListener {
  readonly alarm: (why: string) => void;
  /** The cause of the alarm is gone. */
  readonly clear: () => void;
  /** Takes one line. */
  readonly say: (text: string) => void;
}

/** Makes one Git commit of the directory for each burst of changes and pushes it. Retries until it succeeds. */
export class Committer {
  readonly #dir: string;
  readonly #repository: BundleRepository;
  readonly #isPushing: boolean;
  readonly #publisher: HoldablePublisher;
  readonly #listener: CommitterListener;
  readonly #limits: Readonly<Record<keyof typeof commitLimits, number>>;
  readonly #about = new Set<string>();
  /** The last publication. */
  #files: BundleFiles = new Map();
  /** The objects of commits that are not pushed yet. */
  readonly #unpushed = new Set<string>();
  #isOn = false;
  /** An earlier process may have written and not committed, or committed and not pushed. */
  #isFirst = true;
  /** The last publication is not committed, or not pushed. */
  #isUnfinished = false;
  /** Failed attempts in a row. */
  #failures = 0;
  #timer: NodeJS.Timeout | undefined;
  /** The time of the oldest uncommitted change. */
  #sinceMs: number | undefined;
  #work: Promise<void> = Promise.resolve();

  constructor(
    dir: string,
    isPushing: boolean,
    publisher: HoldablePublisher,
    listener: CommitterListener,
    limits: Readonly<Record<keyof typeof commitLimits, number>> = commitLimits,
  ) {
    this.#dir = dir;
    this.#repository = new BundleRepository(dir);
    this.#isPushing = isPushing;
    this.#publisher = publisher;
    this.#listener = listener;
    this.#limits = limits;
  }

  /** @param hadOtherWriter whether another process may have written before: then this one continues from the remote branch */
  async start(hadOtherWriter: boolean): Promise<void> {
    await this.#work;
    await this.#repair();
    if (hadOtherWriter && this.#isPushing) {
      const why = await this.#repository.fetch();
      if (why === undefined) await this.#repository.follow();
      else this.#listener.alarm(`Cannot fetch ${this.#dir}: ${why}`);
    }
    this.#isOn = true;
    this.#isFirst = true;
  }

  /** Stops committing and pushing: another process takes over. */
  stop(): void {
    this.#isOn = false;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#sinceMs = undefined;
    this.#failures = 0;
    this.#about.clear();
    this.#listener.clear();
  }

  add({ about, files, written, removed }: Publication): void {
    if (written.length + removed.length === 0 && !this.#isFirst && !this.#isUnfinished) return;
    this.#isFirst = false;
    this.#files = files;
    for (const thing of about) this.#about.add(thing);
    // A retry is already scheduled; an earlier one would fail again.
    if (this.#failures > 0 && this.#timer !== undefined) return;
    const { settleMs, maxDelayMs } = this.#limits;
    this.#sinceMs ??= performance.now();
    this.#startIn(Math.max(0, Math.min(settleMs, this.#sinceMs + maxDelayMs - performance.now())));
  }

  /** Commits pending changes and stops. After a failure it leaves them to the next process. */
  async finish(): Promise<void> {
    if (this.#timer !== undefined && this.#failures === 0) this.#start();
    await this.#work;
    this.stop();
  }

  #startIn(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#start(), ms);
  }

  #start(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#sinceMs = undefined;
    this.#work = this.#work.then(() => this.#try());
  }

  /** Commits and pushes, unless the directory is incomplete: then the next publication triggers it again. */
  async #try(): Promise<void> {
    this.#isUnfinished = true;
    try {
      if (this.#failures > 0) await this.#repairOnHold();
      if (!(await this.#commit())) return;
      if (this.#isPushing && !(await this.#push())) return;
      this.#isUnfinished = false;
      this.#failures = 0;
      this.#listener.clear();
    } catch (error) {
      // After a stop, another process commits and pushes.
      if (this.#isOn) this.#failed(error instanceof Error ? error.message : String(error));
    }
  }

  /** A git process may have been killed, for example by the OOM killer, and its lock or rebase makes every other git fail. */
  async #repairOnHold(): Promise<void> {
    this.#publisher.hold();
    let isRepaired = false;
    try {
      isRepaired = await this.#repair();
    } finally {
      this.#publisher.release(isRepaired ? 'changed' : 'same');
    }
  }

  async #repair(): Promise<boolean> {
    const done = await this.#repository.repair();
    for (const what of done) this.#listener.say(`${this.#dir}: ${what}`);
    return done.length > 0;
  }

  /** Schedules a retry, also without another change: nodes that follow the repository have old rules until then. */
  #failed(why: string): void {
    this.#listener.alarm(why);
    const { retryMs, retryMaxMs } = this.#limits;
    if (this.#timer === undefined) this.#startIn(Math.min(retryMs * 2 ** this.#failures, retryMaxMs));
    this.#failures += 1;
  }

  /** @returns whether HEAD now has the last publication, complete */
  async #commit(): Promise<boolean> {
    const about = [...this.#about];
    let message: string | undefined;
    // The files must not change between `git add` and the commit.
    this.#publisher.hold();
    try {
      if (!this.#isOn || !this.#publisher.isWhole) return false;
      message = await this.#repository.record({ about, files: this.#files });
      if (message === undefined) return true;
    } finally {
      this.#publisher.release();
    }
    for (const thing of about) this.#about.delete(thing);
    for (const thing of about) this.#unpushed.add(thing);
    this.#listener.say(`committed: ${message.replace(/\n.*/s, '')}`);
    return true;
  }

  /**
   * Pushes; after a rejected push, rebases onto the remote branch first.
   * @returns false when the result of the rebase must not be pushed yet
   */
  async #push(): Promise<boolean> {
    const { pushesMax, pushPauseMs } = this.#limits;
    let why: string | undefined;
    for (let attempt = 1; attempt <= pushesMax && this.#isOn; attempt++) {
      why = await this.#repository.push();
      if (why === undefined) {
        this.#unpushed.clear();
        return true;
      }
      if (!(await this.#rebaseAndCommit())) return false;
      await new Promise((resolve) => setTimeout(resolve, pushPauseMs * attempt * Math.random()));
    }
    throw new Error(`Cannot push ${this.#dir}: ${why}`);
  }

  /** @returns whether HEAD now has the last publication, complete */
  async #rebaseAndCommit(): Promise<boolean> {
    if ((await this.#repository.fetch()) !== undefined) return true;
    this.#publisher.hold();
    try {
      // A rebase that conflicts commits the directory as it is, so that must be complete.
      if (!this.#publisher.isWhole) return false;
      await this.#repository.rebase({ about: [...this.#unpushed], files: this.#files });
    } finally {
      this.#publisher.release('changed');
    }
    // The rebase may have changed the directory: publish the state of the cluster again before the push.
    this.#publisher.publishNow();
    return await this.#commit();
  }
}
