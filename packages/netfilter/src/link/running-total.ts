import { differing } from '../layered.ts';

/** How entries of a map add up. */
interface Adding<V, T> {
  readonly none: T;
  readonly of: (key: string, value: V) => T;
  /** @param sign 1 or -1 */
  readonly add: (a: T, b: T, sign: number) => T;
}

/** The total over the entries of a map, for maps that follow each other: costs the entries that differ from the last one. */
export class RunningTotal<V, T> {
  readonly #adding: Adding<V, T>;
  #map: ReadonlyMap<string, V> = new Map();
  #total: T;

  constructor(adding: Adding<V, T>) {
    this.#adding = adding;
    this.#total = adding.none;
  }

  /** @param map must not change afterwards */
  of(map: ReadonlyMap<string, V>): T {
    const { add, of } = this.#adding;
    for (const key of differing(this.#map, map)) {
      const [before, after] = [this.#map.get(key), map.get(key)];
      if (after !== undefined) this.#total = add(this.#total, of(key, after), 1);
      if (before !== undefined) this.#total = add(this.#total, of(key, before), -1);
    }
    this.#map = map;
    return this.#total;
  }
}
