import { compareText } from '@sluice/netfilter';
import { fileDigest } from './seal.ts';
import { TextsDigest } from './texts-digest.ts';
import { isOutsideTree } from '../tree.ts';

const lineOf = (path: string, text: string): string => `${fileDigest(text)}  ${path}\n`;

/**
 * The seal of a tree that changes a little at a time: a file that changes costs its own digest, and the part of the tree's digest behind
 * its line. The seal is that of `completeText`.
 */
export class RunningSeal {
  readonly #digest = new TextsDigest();
  /** Sorted, and the lines of `SHA256SUMS` at the same positions. */
  #paths: readonly string[];
  #lines: readonly string[];

  /** @param files path → text; those outside of the tree do not count */
  constructor(files: ReadonlyMap<string, string>) {
    this.#paths = [...files.keys()].filter((path) => !isOutsideTree(path)).toSorted(compareText);
    this.#lines = this.#paths.map((path) => lineOf(path, files.get(path) ?? ''));
  }

  /** @param changes path → its new text; undefined: the file is removed */
  change(changes: Iterable<readonly [path: string, text: string | undefined]>): void {
    const [paths, lines] = [[...this.#paths], [...this.#lines]];
    for (const [path, text] of changes) {
      if (isOutsideTree(path)) continue;
      const at = placeIn(paths, path);
      const isKnown = paths[at] === path;
      if (text !== undefined && isKnown) lines[at] = lineOf(path, text);
      else if (text !== undefined) {
        paths.splice(at, 0, path);
        lines.splice(at, 0, lineOf(path, text));
      } else if (isKnown) {
        paths.splice(at, 1);
        lines.splice(at, 1);
      }
    }
    [this.#paths, this.#lines] = [paths, lines];
  }

  /** The content of `.sluice-complete`. */
  get text(): string {
    return `sha256:${this.#digest.of(this.#lines)}\n`;
  }
}

/**
 * Where a text is in a sorted list, or belongs.
 * @param keyOf of each text, by which the list is sorted; left out: the text
 * @returns the first position whose text is not before this one
 */
export function placeIn(sorted: readonly string[], text: string, keyOf = (one: string): string => one): number {
  const key = keyOf(text);
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (compareText(keyOf(sorted[middle] ?? ''), key) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}
