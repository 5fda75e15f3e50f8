import { completeForm, readPath } from '../tree.ts';

/**
 * How far back a writer tells: so many publications, and so many paths in all of them. A reader that has missed more compares folders.
 */
const kept = { publications: 16, paths: 1_000 } as const;

/** A larger file is not read: paths of the format are shorter than 512 bytes. */
export const changesBytesMax = kept.paths * 512 + (kept.publications + 1) * 80;

/** One publication: the paths that it wrote or removed, and the `.sluice-complete` behind it. */
interface Publication {
  readonly paths: readonly string[];
  readonly complete: string;
}

/** What a writer puts into `.sluice-changes`: its last publications. README.md, "Digests". */
export class RecentChanges {
  readonly #first: string;
  readonly #later: readonly Publication[];

  /** @param complete the `.sluice-complete` of a directory whose earlier changes are not known */
  constructor(complete: string, later: readonly Publication[] = []) {
    this.#first = complete;
    this.#later = later;
  }

  /** The same after one more publication; the oldest ones are left out. */
  with(paths: readonly string[], complete: string): RecentChanges {
    const later = [...this.#later, { paths, complete }];
    let first = this.#first;
    while (later.length > kept.publications || later.reduce((sum, one) => sum + one.paths.length, 0) > kept.paths)
      first = later.shift()?.complete ?? first;
    return new RecentChanges(first, later);
  }

  /** The content of the file. */
  get text(): string {
    return [this.#first, ...this.#later.map(({ paths, complete }) => linesOf(paths) + complete)].join('');
  }
}

const linesOf = (paths: readonly string[]): string => paths.map((path) => `${path}\n`).join('');

/**
 * The paths that changed between two states of a directory, as its writer tells. Nothing follows from them but what to read: the digest of
 * the tree decides.
 * @param text of `.sluice-changes`
 * @param from the `.sluice-complete` of the earlier state
 * @param to the present one
 * @returns undefined where it does not tell: it is of other states, or not as a writer writes it
 */
export function changesBetween(text: string, from: string, to: string): ReadonlySet<string> | undefined {
  const lines = text.split('\n');
  const begin = lines.lastIndexOf(from.trimEnd());
  if (begin < 0 || !text.endsWith(`\n${to}`)) return undefined;
  const paths = lines.slice(begin + 1, -2).filter((line) => !completeForm.test(`${line}\n`));
  return paths.every((path) => readPath(path) !== undefined) ? new Set(paths) : undefined;
}
