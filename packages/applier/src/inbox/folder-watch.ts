import { closeSync, constants, existsSync, fstatSync, type FSWatcher, openSync, readSync, watch } from 'node:fs';
import { join } from 'node:path';
import { completeFile, completeForm } from '@sluice/bundle';

const sealBytes = 'sha256:'.length + 64 + 1;

/** The callbacks of a watch. */
export interface FolderWatchParts {
  /** The directory has another whole seal than before, which is the last file that a writer puts there. */
  readonly onSeal: () => void;
  /** Anything else changed at the top, or Git wrote into `.git`. */
  readonly onEvent: () => void;
  /** It watches no more. */
  readonly onError: (error: unknown) => void;
}

/**
 * Watches a bundle directory at its top: the kernel tells names, so nothing is listed. Files whose names start with `.sluice-` are no part
 * of a bundle, except the seal.
 */
export class FolderWatch {
  readonly #directory: string;
  readonly #parts: FolderWatchParts;
  readonly #watchers: readonly FSWatcher[];
  #last: string | undefined;

  /** @throws where the kernel has no watch left, or the directory is gone */
  constructor(directory: string, parts: FolderWatchParts) {
    this.#directory = directory;
    this.#parts = parts;
    this.#last = readSeal(directory);
    const top = this.#watch(directory, (name) => this.#changed(name));
    const git = join(directory, '.git');
    try {
      this.#watchers = existsSync(git) ? [top, this.#watch(git, parts.onEvent)] : [top];
    } catch (error) {
      top.close();
      throw error;
    }
  }

  close(): void {
    for (const watcher of this.#watchers) watcher.close();
  }

  #watch(directory: string, onEvent: (name: string | null) => void): FSWatcher {
    const watcher = watch(directory, { persistent: false }, (_event, name) => onEvent(name));
    watcher.on('error', this.#parts.onError);
    return watcher;
  }

  #changed(name: string | null): void {
    if (name === completeFile) this.#sealChanged();
    else if (name?.startsWith('.sluice-') !== true) this.#parts.onEvent();
  }

  #sealChanged(): void {
    const now = readSeal(this.#directory);
    if (now === undefined) return this.#parts.onEvent();
    if (now === this.#last) return;
    this.#last = now;
    this.#parts.onSeal();
  }
}

/** The seal, if it is whole. Follows no link, waits for no pipe and reads no more than a seal has. */
function readSeal(directory: string): string | undefined {
  let fd: number | undefined;
  try {
    const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK, O_NOCTTY } = constants;
    fd = openSync(join(directory, completeFile), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (!fstatSync(fd).isFile()) return undefined;
    const bytes = Buffer.alloc(sealBytes + 1);
    const text = bytes.toString('latin1', 0, readSync(fd, bytes, 0, bytes.length, 0));
    return completeForm.test(text) ? text : undefined;
  } catch {
    return undefined;
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}
