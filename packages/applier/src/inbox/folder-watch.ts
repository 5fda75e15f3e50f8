import { constants, existsSync, fstatSync, type FSWatcher, watch } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { completeFile, completeForm } from '@sluice/bundle';
import { openFile, readUpTo } from '../kernel/open-file.ts';

const sealBytes = 'sha256:'.length + 64 + 1;

/** The callbacks of a watch. */
interface FolderWatchCallbacks {
  /** The directory has another whole seal than before, which is the last file that a writer puts there. */
  readonly onSeal: () => void;
  /** Anything else changed at the top, or Git wrote into the `.git` of the work tree that it is in. */
  readonly onEvent: () => void;
  /**
   * The directory or its `.git` was made, removed or moved. Another one may have its path by now, even its inode, and this watch sees
   * nothing of it.
   */
  readonly onMoved: () => void;
  /** It watches no more. */
  readonly onError: (error: unknown) => void;
}

/**
 * Watches a bundle directory at its top: the kernel tells names, so nothing is listed. Files whose names start with `.sluice-` are no part
 * of a bundle, except the seal.
 */
export class FolderWatch {
  readonly #directory: string;
  readonly #parts: FolderWatchCallbacks;
  readonly #watchers: readonly FSWatcher[];
  #last: string | undefined;

  /** @throws where the kernel has no watch left, or the directory is gone */
  constructor(directory: string, parts: FolderWatchCallbacks) {
    this.#directory = directory;
    this.#parts = parts;
    this.#last = readSeal(directory);
    const watchers = [this.#watch(directory, (name, event) => this.#changed(name, event))];
    this.#watchers = watchers;
    const git = gitAbove(directory);
    // Git moves the branch last of all, in a folder of its own.
    const places = git === undefined ? [] : [git, join(git, 'refs/heads')].filter((path) => existsSync(path));
    try {
      for (const path of places) watchers.push(this.#watch(path, () => parts.onEvent()));
    } catch (error) {
      this.close();
      throw error;
    }
  }

  close(): void {
    for (const watcher of this.#watchers) watcher.close();
  }

  #watch(directory: string, onEvent: (name: string | null, event: string) => void): FSWatcher {
    const watcher = watch(directory, { persistent: false }, (event, name) => onEvent(name, event));
    watcher.on('error', this.#parts.onError);
    return watcher;
  }

  #changed(name: string | null, event: string): void {
    if (name === completeFile) this.#sealChanged();
    // Node gives an event of the directory itself its own name.
    else if (event === 'rename' && (name === basename(this.#directory) || name === '.git')) this.#parts.onMoved();
    else if (name?.startsWith('.sluice-') !== true) this.#parts.onEvent();
  }

  #sealChanged(): void {
    const before = this.#last;
    this.#last = readSeal(this.#directory);
    // Also where the same seal comes back: a look between found none.
    if (this.#last === undefined) this.#parts.onEvent();
    else if (this.#last !== before) this.#parts.onSeal();
  }
}

/** The `.git` of the work tree that a directory is in, as Git finds it; undefined where it is in none. */
export function gitAbove(directory: string): string | undefined {
  const git = join(directory, '.git');
  if (existsSync(git)) return git;
  const above = dirname(directory);
  return above === directory ? undefined : gitAbove(above);
}

/** The seal, if it is whole. Follows no link, waits for no pipe and reads no more than a seal has. */
function readSeal(directory: string): string | undefined {
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK, O_NOCTTY } = constants;
  try {
    using file = openFile(join(directory, completeFile), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (!fstatSync(file.fd).isFile()) return undefined;
    const text = readUpTo(file.fd, sealBytes + 1).toString('latin1');
    return completeForm.test(text) ? text : undefined;
  } catch {
    return undefined;
  }
}
