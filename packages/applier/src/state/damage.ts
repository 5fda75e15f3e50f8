import { basename } from 'node:path';
import * as v from 'valibot';
import { limits } from '../limits.ts';
import type { Generation } from '../ports/journal.ts';
import type { Generations } from './generations.ts';
import type { GenerationRecord } from './record.ts';
import { StateFile } from './state-file.ts';
import type { CurrentText } from './text.ts';

const damagedFile = v.strictObject({
  /** Its path in the state directory: `store/3f…`. */
  file: v.string(),
  /** When it was found last, in ISO 8601. */
  at: v.string(),
  /** Whether it was written anew. */
  isMended: v.boolean(),
});

/** A file of the state directory that was damaged or missing. */
export type DamagedFile = v.InferOutput<typeof damagedFile>;

/** `store/3f… at 2026-11-28T04:00:00.000Z (written anew)` */
export const describeDamage = ({ file, at, isMended }: DamagedFile): string =>
  `${file} at ${at} (${isMended ? 'written anew' : 'NOT written anew: what needs it is lost'})`;

const schema = v.strictObject({ schema: v.literal(1), files: v.array(damagedFile) });

/** The files of a state directory that were found damaged, for operators: a disk that loses one may lose more. `damage.json`. */
export class Damage {
  readonly #directory: string;
  readonly #file: StateFile<v.InferOutput<typeof schema>>;
  readonly #now: () => Date;
  readonly #isShared: boolean;

  /** @param now the time of day @param isShared another process may write: this one only remembers */
  constructor(directory: string, now: () => Date, isShared: boolean) {
    this.#directory = directory;
    this.#file = new StateFile(`${directory}/damage.json`, schema);
    this.#now = now;
    this.#isShared = isShared;
  }

  /** Those of the last day, the newest last. */
  get files(): readonly DamagedFile[] {
    const sinceMs = this.#now().getTime() - limits.damageToldMs;
    return this.#all.filter(({ at }) => Date.parse(at) >= sinceMs);
  }

  get #all(): readonly DamagedFile[] {
    return this.#file.read()?.files ?? [];
  }

  /** @param path absolute */
  found(path: string, isMended: boolean): void {
    const file = path.startsWith(`${this.#directory}/`) ? path.slice(this.#directory.length + 1) : path;
    const others = this.#all.filter((one) => one.file !== file);
    this.#keep([...others, { file, at: this.#now().toISOString(), isMended }].slice(-limits.damagedFilesKept));
  }

  /** @param isWhole whether a file that was not written anew is whole by now */
  checkAgain(isWhole: (name: string) => boolean): void {
    const all = this.#all;
    const now = all.map((one) => (one.isMended || !isWhole(basename(one.file)) ? one : { ...one, isMended: true }));
    if (now.some(({ isMended }, at) => isMended !== all[at]?.isMended)) this.#keep(now);
  }

  /** Why an operator should look at the disk; undefined: nothing is damaged, and nothing was lately. */
  get alarm(): string | undefined {
    const sinceMs = this.#now().getTime() - limits.damageAlarmMs;
    const recent = this.files.filter(({ at, isMended }) => !isMended || Date.parse(at) >= sinceMs);
    if (recent.length === 0) return undefined;
    return `files of ${this.#directory} were damaged: ${recent.map(describeDamage).join('; ')}`;
  }

  #keep(files: DamagedFile[]): void {
    try {
      if (this.#isShared) this.#file.remember({ schema: 1, files });
      else this.#file.write({ schema: 1, files });
    } catch {
      // A disk that takes no write: this process remembers it.
    }
  }
}

/** Keeps the files of the active generation whole: reads them again, and has a second copy of them. */
export class Upkeep {
  readonly #generations: Generations;
  readonly #text: CurrentText;
  readonly damage: Damage;
  readonly #nowMs: () => number;
  /** The text whose objects were read again, and when. */
  #checked: string | undefined;
  #checkedMs = -Infinity;

  constructor(generations: Generations, text: CurrentText, damage: Damage, nowMs: () => number) {
    this.#generations = generations;
    this.#text = text;
    this.damage = damage;
    this.#nowMs = nowMs;
  }

  /** A generation is active: writes its text, and keeps copies of its objects. @param manifest the digest of its manifest */
  wrote(active: Generation, manifest: string): void {
    this.#text.write(active, manifest);
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
  earlierRevision({
    number,
    revision,
  }: GenerationRecord): { readonly generation: Generation; readonly record: GenerationRecord } | undefined {
    const { last } = this.#text;
    const generation = last?.number === number && last.revision < revision ? this.#generations.read(last) : undefined;
    return generation && { generation, record: this.#generations.write(generation) };
  }

  /**
   * Reads the files of the active generation again, after a release and now and then, and writes damaged ones anew: from their copies, else
   * from memory.
   * @param mayMove whether the record may get another manifest
   * @returns the record of the generation, if it was stored elsewhere
   */
  check(active: Generation, current: GenerationRecord, mayMove: boolean): GenerationRecord | undefined {
    const { manifest } = this.#text;
    const sinceMs = this.#nowMs() - this.#checkedMs;
    if (manifest === this.#checked && sinceMs >= 0 && sinceMs < limits.stateCheckMs) return undefined;
    let anew: GenerationRecord | undefined;
    try {
      if (!this.#generations.check([current.manifest, manifest])) {
        if (!mayMove) return undefined;
        anew = this.#generations.writeAnew(active);
        this.#text.write(active, anew.manifest);
        this.#generations.check([anew.manifest]);
      }
    } catch {
      // A disk that takes no write, or that cannot be read now: later again.
      return undefined;
    }
    this.damage.checkAgain((name) => this.#generations.has(name));
    [this.#checked, this.#checkedMs] = [this.#text.manifest, this.#nowMs()];
    return anew;
  }
}
