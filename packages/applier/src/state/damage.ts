import { basename } from 'node:path';
import * as v from 'valibot';
import { limits } from '../limits.ts';
import { StateFile } from './state-file.ts';

const damagedFile = v.strictObject({
  /** Its path in the state directory: `store/3f…`. */
  file: v.string(),
  /** When it was found last, in ISO 8601. */
  at: v.string(),
  /** Whether it was written again. */
  isMended: v.boolean(),
});

/** A file of the state directory that was damaged or missing. */
export type DamagedFile = v.InferOutput<typeof damagedFile>;

/** `store/3f… at 2026-11-28T04:00:00.000Z (written again)` */
export const describeDamage = ({ file, at, isMended }: DamagedFile): string =>
  `${file} at ${at} (${isMended ? 'written again' : 'NOT written again: what needs it is lost'})`;

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
    const sinceMs = this.#now().getTime() - limits.damageReportedMs;
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

  /** @param isWhole whether a file that was not written again is whole by now */
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
