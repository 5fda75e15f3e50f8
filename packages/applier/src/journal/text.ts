import { limits } from '../limits.ts';
import type { Generation } from '../rollout/ports.ts';
import { publishDirectory } from '../store/files.ts';
import { nativeFiles } from './native.ts';

/**
 * The text of what stands, for people who load it by hand: the directory `current`. Nothing reads it back, so a disk that does not
 * take it is no failure of a change.
 */
export class CurrentText {
  readonly #directory: string;
  readonly #nowMs: () => number;
  #written: Generation | undefined;
  #writtenMs = -Infinity;

  constructor(directory: string, nowMs: () => number) {
    this.#directory = directory;
    this.#nowMs = nowMs;
  }

  write(generation: Generation): void {
    this.#written = generation;
    this.#writtenMs = this.#nowMs();
    try {
      publishDirectory(this.#directory, nativeFiles(generation.state));
    } catch {
      // The next one is written again.
    }
  }

  /** Writes it where it says something else, though not again and again: at 10,000 Services it is 25 MB. */
  catchUp(generation: Generation): void {
    const isDue = this.#nowMs() - this.#writtenMs >= limits.textIntervalMs;
    if (generation !== this.#written && isDue) this.write(generation);
  }
}
