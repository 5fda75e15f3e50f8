import type { Path } from '../../render/model/kube.ts';

/**
 * The offsets of all values of a document, in the order of the text, each with its key and the index of the value after its last
 * descendant. Flat lists, because a list of 10,000 Services has a million values.
 */
export class Marks {
  private readonly keys: (string | number)[] = [];
  private readonly offsets: number[] = [];
  private readonly keyOffsets: number[] = [];
  private readonly ends: number[] = [];

  clear(): void {
    for (const list of [this.keys, this.offsets, this.keyOffsets, this.ends]) list.length = 0;
  }

  /** Starts the value under `key` at `offset`; the root's key is ignored. @returns the argument for `leave` */
  enter(key: string | number, offset: number, keyOffset = offset): number {
    this.offsets.push(offset);
    this.keyOffsets.push(keyOffset);
    this.ends.push(0);
    return this.keys.push(key) - 1;
  }

  /** Ends the value, after all its descendants. */
  leave(value: number): void {
    this.ends[value] = this.keys.length;
  }

  /** The offset of the value at `path`, or of its nearest existing ancestor; 0 in a document without values. */
  find(path: Path): number {
    return this.offsets[this.nearest(path).value] ?? 0;
  }

  /** The offset of the key at the end of `path`, or as `find` where there is none. */
  findKey(path: Path): number {
    const { value, isWhole } = this.nearest(path);
    return (isWhole ? this.keyOffsets : this.offsets)[value] ?? 0;
  }

  private nearest(path: Path): { readonly value: number; readonly isWhole: boolean } {
    let value = 0;
    for (const key of path) {
      const child = this.child(value, key);
      if (child < 0) return { value, isWhole: false };
      value = child;
    }
    return { value, isWhole: true };
  }

  private child(parent: number, key: string | number): number {
    const end = this.ends[parent] ?? 0;
    for (let value = parent + 1; value < end; value = this.ends[value] ?? end) {
      if (this.keys[value] === key) return value;
    }
    return -1;
  }
}
