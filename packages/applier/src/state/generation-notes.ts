import * as v from 'valibot';
import { limits } from '../limits.ts';
import { StateFile } from './state-file.ts';
import { type GenerationRecord, generation } from './record.ts';

const checkpoint = v.strictObject({ name: v.string(), at: v.string(), generation });
const schema = v.strictObject({
  schema: v.literal(1),
  /** The serial of the release of a generation, for as long as the generation is kept. */
  releases: v.array(v.strictObject({ generation: v.number(), serial: v.number() })),
  checkpoints: v.array(checkpoint),
});

/** A generation that is kept under a name until the name is removed, with its endpoints of that time. */
export type Checkpoint = v.InferOutput<typeof checkpoint>;

/**
 * Notes for operators that nothing is decided by: `generations.json` in the state directory. A `sluiced` without checkpoints ignores the
 * file, and sweeps their programs with the next release; such a checkpoint can no longer be read.
 */
export class GenerationNotes {
  readonly #file: StateFile<v.InferOutput<typeof schema>>;
  #notes: v.InferOutput<typeof schema>;

  constructor(state: string) {
    this.#file = new StateFile(`${state}/generations.json`, schema);
    this.#notes = this.#file.read() ?? { schema: 1, releases: [], checkpoints: [] };
  }

  get checkpoints(): readonly Checkpoint[] {
    return this.#notes.checkpoints;
  }

  serialOf(number: number): number | undefined {
    return this.#notes.releases.findLast(({ generation: one }) => one === number)?.serial;
  }

  /** @throws StateError when the disk takes no write */
  came(number: number, serial: number, kept: readonly GenerationRecord[]): void {
    const numbers = new Set([...kept, ...this.checkpoints.map((one) => one.generation)].map((one) => one.number));
    const others = this.#notes.releases.filter(({ generation: one }) => one !== number && numbers.has(one));
    this.#write({ ...this.#notes, releases: [...others, { generation: number, serial }] });
  }

  /** @throws StateError when the disk takes no write */
  pin(one: Checkpoint): void {
    this.#write({ ...this.#notes, checkpoints: [...this.#without(one.name), one] });
  }

  /** @throws StateError when the disk takes no write */
  unpin(name: string): void {
    this.#write({ ...this.#notes, checkpoints: this.#without(name) });
  }

  #without(name: string): Checkpoint[] {
    return this.checkpoints.filter((one) => one.name !== name);
  }

  #write(notes: v.InferOutput<typeof schema>): void {
    this.#file.write(notes);
    this.#notes = notes;
  }
}

/** A name that is neither a number nor a version: a letter first, then letters, digits, `.`, `_` and `-`; at most 63. */
export const isCheckpointName = (name: string): boolean =>
  /^[a-z][a-z0-9._-]{0,62}$/.test(name) && !/^[0-9a-f]{8,}$/.test(name);

/** Whether the limit is reached: each checkpoint keeps its programs on the disk. */
export const isFull = (checkpoints: readonly Checkpoint[]): boolean => checkpoints.length >= limits.checkpointsMax;
