import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach } from 'vitest';
import type { ObjectChange } from '../../cluster/watch/feed.ts';
import { LiveTree } from '../../emit/live-tree.ts';
import { Commits } from './commits.ts';
import { WatchLoop } from './loop.ts';
import type { Publication, Unpublished } from './publisher.ts';

/** The limits of the program, scaled down. */
export const limits = { maxDelayMs: 600, settleMs: 20, pushesMax: 5, pushPauseMs: 5, retryMs: 50, retryMaxMs: 100 };

export function git(cwd: string, ...args: readonly string[]): string {
  return execFileSync('git', args, { cwd, encoding: 'utf8', stdio: 'pipe' }).trim();
}

/** A repository `work` with a bundle directory `rendered`, and its remote `origin`: of each test, from the hooks of `withRepository`. */
export let repository: {
  readonly dir: string;
  readonly work: string;
  readonly rendered: string;
  readonly origin: string;
};
export let loop: TestLoop;

/** Sets the hooks of a file of tests. */
export function withRepository(): void {
  beforeEach(() => {
    const dir = mkdtempSync(join(tmpdir(), 'sluice-commits-'));
    const [origin, work] = [join(dir, 'origin.git'), join(dir, 'work')];
    git(dir, 'init', '--quiet', '--bare', '--initial-branch=main', origin);
    git(dir, 'clone', '--quiet', origin, 'work');
    git(work, 'checkout', '--quiet', '-b', 'main');
    git(work, 'config', 'user.name', 'watch');
    git(work, 'config', 'user.email', 'watch@example.com');
    git(work, 'commit', '--quiet', '--allow-empty', '--message', 'start');
    git(work, 'push', '--quiet', '--set-upstream', 'origin', 'main');
    const rendered = join(work, 'rendered');
    mkdirSync(rendered);
    repository = { dir, work, rendered, origin };
  });
  afterEach(async () => {
    loop.loop.follow();
    await loop.finish();
    rmSync(repository.dir, { recursive: true });
  });
}

export async function startLoop(...options: Parameters<typeof TestLoop.start>): Promise<TestLoop> {
  loop = await TestLoop.start(...options);
  return loop;
}

/** The subjects of the commits, the newest first. */
const logOf = (path: string): string[] => git(path, 'log', '--format=%s', 'main').split('\n');
export const log = (): string[] => logOf(repository.work);
export const pushed = (): string[] => logOf(repository.origin);

/** A publisher that publishes given files. */
class GivenFiles {
  readonly #tree: LiveTree;
  files: ReadonlyMap<string, string> = new Map();
  isBad = false;
  #isOn = false;
  /** Those who wait for the next publication. */
  #waiting: { readonly resolve: () => void; readonly reject: (error: Error) => void }[] = [];

  constructor(rendered: string) {
    this.#tree = new LiveTree(rendered);
  }

  get isWhole(): boolean {
    return this.#tree.isWhole;
  }

  changed(_change: ObjectChange): boolean {
    return this.#isOn;
  }

  start(): void {
    this.#isOn = true;
    this.forget();
  }

  stop(): void {
    this.#isOn = false;
  }

  forget(): void {
    this.#tree.forget();
  }

  publish(): Publication | Unpublished {
    const waiting = this.#waiting.splice(0);
    const published = this.isBad ? 'cannot be rendered' : attempt(() => this.#tree.publish(this.files));
    if (typeof published === 'string') {
      for (const { reject } of waiting) reject(new Error(published));
      return { problems: [{ code: 'OUTPUT_UNWRITABLE', level: 'error', message: published, hint: 'none' }] };
    }
    for (const { resolve } of waiting) resolve();
    return { ...published, about: ['Service shop/a'], files: this.files, quarantine: [], ignored: [] };
  }

  /** Resolves after the next publication. */
  next(): Promise<void> {
    return new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }));
  }
}

function attempt(
  act: () => ReturnType<LiveTree['publish']>,
): Exclude<ReturnType<LiveTree['publish']>, { code: string }> | string {
  try {
    const result = act();
    return 'code' in result ? result.message : result;
  } catch (error) {
    return String(error);
  }
}

/** A loop that publishes given files and commits them. */
export class TestLoop {
  readonly alarms: string[] = [];
  /** The reasons of failed publications. */
  readonly unpublished: string[] = [];
  output = '';
  /** No alarm is active. */
  isClear = true;
  readonly loop: WatchLoop;
  readonly #publisher: GivenFiles;
  readonly #running: Promise<void>;

  private constructor(rendered: string, isPushing: boolean, settleMs: number) {
    this.#publisher = new GivenFiles(rendered);
    this.loop = new WatchLoop({
      objects: () => new Map(),
      publisher: this.#publisher,
      pace: { minIntervalMs: 0, maxDelayMs: 100 },
      commits: new Commits(rendered, isPushing),
      report: {
        published: () => {},
        notPublished: ([problem]) => void this.unpublished.push(problem?.message ?? ''),
        held: () => undefined,
        committed: () => void (this.isClear = true),
        notCommitted: (why) => {
          this.isClear = false;
          this.alarms.push(why);
        },
        say: (text) => void (this.output += text),
      },
      now: () => performance.now(),
      commitLimits: { ...limits, settleMs },
    });
    this.#running = this.loop.run();
  }

  /** Starts, and waits until it writes. */
  static async start(
    rendered: string,
    isPushing: boolean,
    files: ReadonlyMap<string, string>,
    settleMs: number = limits.settleMs,
  ): Promise<TestLoop> {
    const started = new TestLoop(rendered, isPushing, settleMs);
    started.#publisher.files = files;
    const published = started.#publisher.next();
    started.loop.lead(false);
    await published;
    return started;
  }

  /** Sets whether the files can be rendered. */
  set isBad(isBad: boolean) {
    this.#publisher.isBad = isBad;
  }

  /** Changes the files, and waits until they are written. Rejects when that fails. */
  async publish(files: ReadonlyMap<string, string>): Promise<void> {
    this.#publisher.files = files;
    const published = this.#publisher.next();
    this.loop.recheck();
    await published;
  }

  /** Ends as after a signal. */
  async finish(): Promise<void> {
    this.loop.finish();
    await this.#running;
  }
}

/** For what hangs: a commit and a push are ten processes, and a busy machine is no fault. */
const hangMs = 120_000;

/** Waits for a condition, and fails with the last alarm. */
export async function until(isSo: () => boolean): Promise<void> {
  for (const end = Date.now() + hangMs; !isSo(); await pause(20)) {
    const { alarms } = loop;
    if (Date.now() > end) throw new Error(`Waited too long; there were ${alarms.length} alarms: ${alarms.at(-1)}`);
  }
}

export const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
