import { closeSync, constants, fstatSync, type FSWatcher, openSync, readSync, watch } from 'node:fs';
import { join } from 'node:path';
import { completeFile } from '@sluice/bundle';

/** The whole content of `.sluice-complete`: with anything else a writer is not done, or it is none of ours. */
const seal = /^sha256:[0-9a-f]{64}\n$/;
const sealBytes = 'sha256:'.length + 64 + 1;

/**
 * Calls back as soon as a directory has another seal than before, which is the last file that a writer puts there. It shares the kernel's
 * watch with the watcher of the same directory. Without one it never calls back.
 */
export class SealWatch {
  readonly #directory: string;
  readonly #onSeal: () => void;
  readonly #watcher: FSWatcher | undefined;
  #last: string | undefined;

  constructor(directory: string, onSeal: () => void) {
    this.#directory = directory;
    this.#onSeal = onSeal;
    this.#last = readSeal(directory);
    this.#watcher = watchSeal(directory, () => this.#look());
  }

  /** Whether the directory has the seal that was reported last. */
  get isReported(): boolean {
    return this.#last !== undefined && readSeal(this.#directory) === this.#last;
  }

  close(): void {
    this.#watcher?.close();
  }

  #look(): void {
    const now = readSeal(this.#directory);
    if (now === undefined || now === this.#last) return;
    this.#last = now;
    this.#onSeal();
  }
}

function watchSeal(directory: string, onEvent: () => void): FSWatcher | undefined {
  try {
    const watcher = watch(directory, { persistent: false }, (_event, name) => {
      if (name === completeFile) onEvent();
    });
    // The watcher of the same directory reports it.
    watcher.on('error', () => watcher.close());
    return watcher;
  } catch {
    return undefined;
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
    return seal.test(text) ? text : undefined;
  } catch {
    return undefined;
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}
