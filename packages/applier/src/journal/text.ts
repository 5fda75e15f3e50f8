import { limits } from '../limits.ts';
import type { Generation } from '../rollout/ports.ts';
import { publishDirectory } from '../store/files.ts';
import { nativeFiles } from './native.ts';
import { standsFile, stoodLast } from './remains.ts';

/**
 * The text of what stands, for people who load it by hand: the directory `current`, with which generation it is. Only who has lost
 * the journal reads it back, so a disk that does not take it is no failure of a change.
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

  /** The digest of the manifest that it is the text of; empty where that is not known. */
  get manifest(): string {
    return this.#manifest;
  }

  /** @param manifest the digest of its manifest in the store */
  write(generation: Generation, manifest: string): void {
    this.#written = generation;
    this.#writtenMs = this.#nowMs();
    try {
      publishDirectory(this.#directory, { ...nativeFiles(generation.state), ...standsFile(generation, manifest) });
      this.#manifest = manifest;
    } catch {
      // The next one is written again.
    }
  }

  /** Writes it where it says something else, though not again and again: at 10,000 Services it is 25 MB. */
  catchUp(generation: Generation, manifest: string): void {
    const isDue = this.#nowMs() - this.#writtenMs >= limits.textIntervalMs;
    if (generation !== this.#written && isDue) this.write(generation, manifest);
  }
}
