import type { BundleFiles } from '@sluice/bundle';
import type { Publication, Publisher } from './publisher.ts';
import { Repository } from './repository.ts';

/** Every bound on commits and pushes. */
export const commitLimits = {
  /** So long after the last change what there is is committed. */
  settleMs: 1_000,
  /** No change waits longer than this, however fast others follow. */
  maxDelayMs: 10_000,
  /** Pushes of one try, over what others pushed meanwhile. */
  pushesMax: 5,
  pushPauseMs: 1_000,
  /** What did not succeed is tried again; doubles with each failure, up to `retryMaxMs`. */
  retryMs: 5_000,
  retryMaxMs: 60_000,
} as const;

/** Who writes the directory, as far as commits need to know. */
export type Writer = Pick<Publisher, 'isWhole' | 'hold' | 'release' | 'publishNow'>;

export interface CommitterListener {
  readonly alarm: (why: string) => void;
  /** What was wrong is not any more. */
  readonly clear: () => void;
  /** Takes one line. */
  readonly say: (text: string) => void;
}

/** Makes one Git commit of the directory for each settled change, and pushes it. What does not succeed is tried again until it does. */
export class Committer {
  readonly #dir: string;
  readonly #repository: Repository;
  readonly #isPushing: boolean;
  readonly #publisher: Writer;
  readonly #listener: CommitterListener;
  readonly #limits: Readonly<Record<keyof typeof commitLimits, number>>;
  readonly #about = new Set<string>();
  /** The last publication. */
  #files: BundleFiles = new Map();
  /** What commits that are not pushed yet are about. */
  readonly #unpushed = new Set<string>();
  #isOn = false;
  /** An earlier process may have written and not committed, or committed and not pushed. */
  #isFirst = true;
  /** What was published last is not committed, or not pushed. */
  #isOwed = false;
  /** Tries in a row that did not succeed. */
  #failures = 0;
  #timer: NodeJS.Timeout | undefined;
  /** When the first change came that waits. */
  #sinceMs: number | undefined;
  #work: Promise<void> = Promise.resolve();

  constructor(
    dir: string,
    isPushing: boolean,
    publisher: Writer,
    listener: CommitterListener,
    limits: Readonly<Record<keyof typeof commitLimits, number>> = commitLimits,
  ) {
    this.#dir = dir;
    this.#repository = new Repository(dir);
    this.#isPushing = isPushing;
    this.#publisher = publisher;
    this.#listener = listener;
    this.#limits = limits;
  }

  /** @param others whether another process may have written until now: what it pushed is what this one goes on from */
  async start(others: boolean): Promise<void> {
    await this.#work;
    await this.#mend();
    if (others && this.#isPushing) {
      const why = await this.#repository.fetch();
      if (why === undefined) await this.#repository.follow();
      else this.#listener.alarm(`Cannot fetch ${this.#dir}: ${why}`);
    }
    this.#isOn = true;
    this.#isFirst = true;
  }

  /** Commits and pushes nothing any more: another process does. */
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
    if (written.length + removed.length === 0 && !this.#isFirst && !this.#isOwed) return;
    this.#isFirst = false;
    this.#files = files;
    for (const thing of about) this.#about.add(thing);
    // What just failed would fail again.
    if (this.#failures > 0 && this.#timer !== undefined) return;
    const { settleMs, maxDelayMs } = this.#limits;
    this.#sinceMs ??= performance.now();
    this.#startIn(Math.max(0, Math.min(settleMs, this.#sinceMs + maxDelayMs - performance.now())));
  }

  /** Commits what is left, unless that did not succeed just now: then the next process does, and this one ends. */
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

  /** Commits and pushes, unless the directory is half written: then the next publication starts this again. */
  async #try(): Promise<void> {
    this.#isOwed = true;
    try {
      if (this.#failures > 0) await this.#mendAmidst();
      if (!(await this.#commit())) return;
      if (this.#isPushing && !(await this.#push())) return;
      this.#isOwed = false;
      this.#failures = 0;
      this.#listener.clear();
    } catch (error) {
      // Another process commits and pushes now.
      if (this.#isOn) this.#failed(error instanceof Error ? error.message : String(error));
    }
  }

  /** A git may have been killed in the middle of what it did, such as for want of memory, and left what stops every other one. */
  async #mendAmidst(): Promise<void> {
    this.#publisher.hold();
    let isMended = false;
    try {
      isMended = await this.#mend();
    } finally {
      this.#publisher.release(isMended ? 'changed' : 'same');
    }
  }

  async #mend(): Promise<boolean> {
    const done = await this.#repository.mend();
    for (const what of done) this.#listener.say(`${this.#dir}: ${what}`);
    return done.length > 0;
  }

  /** Tries again by itself: whoever follows the repository has old rules until then, also when nothing else changes. */
  #failed(why: string): void {
    this.#listener.alarm(why);
    const { retryMs, retryMaxMs } = this.#limits;
    if (this.#timer === undefined) this.#startIn(Math.min(retryMs * 2 ** this.#failures, retryMaxMs));
    this.#failures += 1;
  }

  /** @returns whether what is committed now is the last publication, whole */
  async #commit(): Promise<boolean> {
    const about = [...this.#about];
    let message: string | undefined;
    // The files must not change between the look at them and the commit.
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
   * Pushes; over what others pushed meanwhile, this is laid.
   * @returns false when what lies over that is not to be pushed yet
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
      if (!(await this.#layOver())) return false;
      await new Promise((resolve) => setTimeout(resolve, pushPauseMs * attempt * Math.random()));
    }
    throw new Error(`Cannot push ${this.#dir}: ${why}`);
  }

  /** @returns whether what is committed now is the last publication, whole */
  async #layOver(): Promise<boolean> {
    if ((await this.#repository.fetch()) !== undefined) return true;
    this.#publisher.hold();
    try {
      // Where commits cannot be laid one by one the directory as it is becomes one.
      if (!this.#publisher.isWhole) return false;
      await this.#repository.rebase({ about: [...this.#unpushed], files: this.#files });
    } finally {
      this.#publisher.release('changed');
    }
    // What others pushed may have changed the directory: what is pushed next is what the cluster is.
    this.#publisher.publishNow();
    return await this.#commit();
  }
}
