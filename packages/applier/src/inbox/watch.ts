import { lstatSync, realpathSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { type ChokidarOptions, type FSWatcher, watch } from 'chokidar';
import { limits } from '../limits.ts';
import { FolderWatch, gitAbove } from './folder-watch.ts';

/** Watches a bundle directory. */
export interface Watcher {
  /** Watches what could not be watched before. */
  refresh(): Promise<void>;
  /** Stops watching. */
  close(): Promise<void>;
}

/** The callbacks of a watcher. */
interface WatchCallbacks {
  /** Something may have changed. */
  readonly onEvent: () => void;
  /** Called with why not everything is watched, so that only a scan finds changes; with undefined when everything is. */
  readonly failed: (why: string | undefined) => void;
}

/**
 * Calls back soon after a change at the top of a bundle directory, and at once when it has another `.sluice-complete`. It never watches
 * the whole tree: 41,000 files would take 430 MB. A writer removes and writes a file at the top, Git writes into .git, a link is swapped:
 * all of these are seen here, and the scan finds the rest.
 *
 * chokidar alone reports nothing when a link is swapped and its old target stays. So the link and its parent directory are watched without
 * following links, and the target is watched again whenever it changes. The target without chokidar, which lists a directory after each
 * event: that took as much time as reading a changed file.
 *
 * The kernel limits watches per user, and any container of root can use them up: then the scan finds everything.
 */
export async function watchBundle(path: string, parts: WatchCallbacks): Promise<Watcher> {
  const watcher = new BundleWatcher(resolve(path), parts);
  await watcher.refresh();
  watcher.hush();
  return watcher;
}

class BundleWatcher implements Watcher {
  readonly #directory: string;
  readonly #parts: WatchCallbacks;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;
  #outside: FSWatcher | undefined;
  #target: { readonly key: string; readonly watch: FolderWatch } | undefined;
  /** Refreshes run one after the other. */
  #refreshing = Promise.resolve();

  constructor(directory: string, parts: WatchCallbacks) {
    this.#directory = directory;
    this.#parts = parts;
  }

  refresh(): Promise<void> {
    this.#refreshing = this.#refreshing.then(() => this.#refresh());
    return this.#refreshing;
  }

  /** Ignores the events until now. */
  hush(): void {
    clearTimeout(this.#timer);
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.hush();
    await this.#refreshing;
    this.#target?.watch.close();
    await this.#outside?.close();
  }

  async #refresh(): Promise<void> {
    if (this.#closed) return;
    try {
      this.#outside ??= await this.#watchOutside();
      this.#retarget();
      if (this.#outside) this.#parts.failed(undefined);
    } catch (error) {
      this.#fail(error);
    }
  }

  /** @throws when the target cannot be watched */
  #retarget(): void {
    const now = identity(this.#directory);
    if (now?.key === this.#target?.key) return;
    this.#target?.watch.close();
    this.#target = undefined;
    if (now === undefined) return;
    const target = new FolderWatch(now.path, {
      onSeal: () => this.#sealed(),
      onEvent: () => this.#poke(),
      onMoved: () => {
        this.#drop(target);
        void this.refresh();
        this.#poke();
      },
      onError: (error) => {
        this.#drop(target);
        this.#fail(error);
      },
    });
    this.#target = { key: now.key, watch: target };
    // It may have changed before it was watched.
    this.#poke();
  }

  #drop(target: FolderWatch): void {
    target.close();
    if (this.#target?.watch === target) this.#target = undefined;
  }

  async #watchOutside(): Promise<FSWatcher> {
    const above = dirname(this.#directory);
    const ignored = (other: string): boolean => other !== this.#directory && other !== above;
    const watcher = await this.#open(above, { followSymlinks: false, ignored }, () => {
      this.#poke();
      void this.refresh();
    });
    this.#poke();
    return watcher;
  }

  /** @throws when it cannot be watched */
  async #open(path: string, options: ChokidarOptions, onEvent: () => void): Promise<FSWatcher> {
    const watcher = watch(path, { ignoreInitial: true, depth: 0, ...options });
    const { promise, resolve: done, reject } = Promise.withResolvers<FSWatcher>();
    watcher.on('all', onEvent);
    watcher.once('ready', () => done(watcher));
    // Stays registered: an unhandled error would end the process.
    watcher.on('error', (error) => {
      reject(error);
      this.#lose(watcher, error);
    });
    return promise;
  }

  #lose(watcher: FSWatcher, error: unknown): void {
    if (this.#outside === watcher) this.#outside = undefined;
    this.#fail(error);
    watcher.close().catch((failure: unknown) => this.#fail(failure));
  }

  #fail(error: unknown): void {
    const why = error instanceof Error ? error.message : String(error);
    this.#parts.failed(`Cannot watch ${this.#directory}: ${why}`);
  }

  /** The bundle is complete: that look finds what earlier events told, too. */
  #sealed(): void {
    this.hush();
    if (!this.#closed) this.#parts.onEvent();
  }

  #poke(): void {
    this.hush();
    if (!this.#closed) this.#timer = setTimeout(this.#parts.onEvent, limits.eventSettleMs);
  }
}

/** The directory behind the path, identified by its inode: a replaced directory has the same name; and where Git writes of it. */
function identity(path: string): { key: string; path: string } | undefined {
  try {
    const real = realpathSync(path);
    const { dev, ino } = lstatSync(real);
    return { key: `${dev}:${ino}:${gitAbove(real)}:${real}`, path: real };
  } catch {
    return undefined;
  }
}
