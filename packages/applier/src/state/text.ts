import { limits } from '../limits.ts';
import type { Generation } from '../ports/journal.ts';
import { publishDirectory } from './files.ts';
import { nativeFiles } from './native.ts';
import { activeGenerationFile, stoodLast } from './remains.ts';

/**
 * The native text of the active generation, for operators who load it by hand: the directory `current`, with the generation's number. Only
 * recovery from a lost journal reads it back, so a failed write does not fail the change.
 */
export class CurrentText {
  readonly #directory: string;
  readonly #nowMs: () => number;
  #written: Generation | undefined;
  #manifest: string;
  #writtenMs = -Infinity;

  constructor(directory: string, nowMs: () => number) {
    this.#directory = directory;
    this.#nowMs = nowMs;
    this.#manifest = stoodLast(directory)?.manifest ?? '';
  }

  /** The digest of its generation's manifest; empty where that is not known. */
  get manifest(): string {
    return this.#manifest;
  }

  /** @param manifest the digest of its manifest in the store */
  write(generation: Generation, manifest: string): void {
    this.#written = generation;
    this.#writtenMs = this.#nowMs();
    try {
      publishDirectory(this.#directory, {
        ...nativeFiles(generation.state),
        ...activeGenerationFile(generation, manifest),
      });
      this.#manifest = manifest;
    } catch {
      // The next one is written again.
    }
  }

  /** Writes it when the active generation has changed, but not often: at 10,000 Services it is 25 MB. */
  catchUp(generation: Generation, manifest: string): void {
    const isDue = this.#nowMs() - this.#writtenMs >= limits.textIntervalMs;
    if (generation !== this.#written && isDue) this.write(generation, manifest);
  }
}
