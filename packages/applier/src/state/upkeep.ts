import { limits } from '../limits.ts';
import type { Generation } from '../ports/journal.ts';
import type { Damage } from './damage.ts';
import type { GenerationNotes } from './generation-notes.ts';
import type { Generations } from './generations.ts';
import type { GenerationRecord, NodeRecord } from './record.ts';
import type { CurrentText } from './text.ts';

/**
 * Keeps the files of the active generation whole, by reading them again and by a second copy of them, and removes what no kept generation
 * needs.
 */
export class Upkeep {
  readonly #generations: Generations;
  readonly #text: CurrentText;
  readonly #notes: GenerationNotes;
  readonly damage: Damage;
  readonly #nowMs: () => number;
  /** The text whose objects were read again, and when. */
  #checked: string | undefined;
  #checkedMs = -Infinity;
  /** Updates since the last sweep. */
  #updates = 0;

  constructor(
    generations: Generations,
    text: CurrentText,
    notes: GenerationNotes,
    damage: Damage,
    nowMs: () => number,
  ) {
    this.#generations = generations;
    this.#text = text;
    this.#notes = notes;
    this.damage = damage;
    this.#nowMs = nowMs;
  }

  /** A generation is active: writes that down, and keeps copies of its objects. @param manifest the digest of its manifest */
  wrote(active: Generation, manifest: string): void {
    this.#text.activate(active, manifest);
    try {
      this.#generations.copy([manifest]);
    } catch {
      // Without room for copies the node runs as well.
    }
  }

  /**
   * The replacement of a generation that cannot be read: its endpoints of some time ago, whose objects the directory `current` keeps. Newer
   * ones come with the next bundle.
   */
  earlierRevision(
    damaged: GenerationRecord,
  ): { readonly generation: Generation; readonly record: GenerationRecord } | undefined {
    const { last } = this.#text;
    const isEarlier = last?.number === damaged.number && last.revision < damaged.revision;
    const generation = isEarlier ? this.#generations.read(last) : undefined;
    return generation && { generation, record: this.#generations.write(generation) };
  }

  /** Sweeps at last in processes that never idle. */
  updated(record: NodeRecord): void {
    this.#updates += 1;
    if (this.#updates >= limits.updatesPerSweepMax) this.sweep(record);
  }

  /** Removes objects that no kept generation needs. */
  sweep(record: NodeRecord): void {
    this.#updates = 0;
    const others = this.#notes.checkpoints.map(({ generation }) => generation.manifest);
    // Without the journal, the generation of the text is the one known to have been active.
    this.#generations.sweep(record, [...others, this.#text.manifest]);
  }

  /**
   * Does what can wait until nothing else is to be done: sweeps, writes the text of the newest endpoints, checks the files.
   * @returns the record of the active generation, if it was stored elsewhere
   */
  tidy(active: Generation | undefined, record: NodeRecord): GenerationRecord | undefined {
    if (this.#updates >= limits.updatesPerSweep) this.sweep(record);
    const { current, open } = record;
    if (!active || !current) return undefined;
    this.#text.catchUp(active, current.manifest);
    return this.#check(active, current, open === null);
  }

  /**
   * Reads the files of the active generation again, after a release and now and then, and writes damaged ones again: from their copies, else
   * from memory.
   * @param mayMove whether the record may get another manifest
   * @returns the record of the generation, if it was stored elsewhere
   */
  #check(active: Generation, current: GenerationRecord, mayMove: boolean): GenerationRecord | undefined {
    const { manifest } = this.#text;
    const sinceMs = this.#nowMs() - this.#checkedMs;
    if (manifest === this.#checked && sinceMs >= 0 && sinceMs < limits.stateCheckMs) return undefined;
    let again: GenerationRecord | undefined;
    try {
      if (!this.#generations.check([current.manifest, manifest])) {
        if (!mayMove) return undefined;
        again = this.#generations.writeAgain(active);
        this.#text.write(active, again.manifest);
        this.#generations.check([again.manifest]);
      }
    } catch {
      // A disk that takes no write, or that cannot be read now: later again.
      return undefined;
    }
    this.damage.checkAgain((name) => this.#generations.has(name));
    [this.#checked, this.#checkedMs] = [this.#text.manifest, this.#nowMs()];
    return again;
  }
}
