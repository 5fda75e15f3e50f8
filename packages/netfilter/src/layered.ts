/** A layer of this size is merged into the map below it … */
const layerMin = 512;
/** … or one that has this share of the map's size. */
const layerShare = 1 / 16;

/** The map below, in any form, and the map that it was merged from. */
interface Below<V> {
  map: ReadonlyMap<string, V>;
  /** The identity of the map before, and the keys that may differ from it. */
  readonly made?: { readonly from: object; readonly keys: readonly string[] };
  readonly self: object;
}

/**
 * An immutable map that shares entries with the map that it was made from: one large map below, and the differences above it. Changing
 * ten of 60,000 entries costs ten, and so does finding the ten again: `differing`.
 *
 * Unchanged entries keep the identity of their values, as long as each map is made from the last one by `with`.
 */
export class Layered<V> implements ReadonlyMap<string, V> {
  readonly #below: Below<V>;
  /** Entries that differ; undefined: deleted. */
  readonly #above: ReadonlyMap<string, V | undefined>;
  readonly size: number;

  private constructor(below: Below<V>, above: ReadonlyMap<string, V | undefined>, size: number) {
    this.#below = below;
    this.#above = above;
    this.size = size;
  }

  /** @param map must not change afterwards */
  static of<V>(map: ReadonlyMap<string, V>): Layered<V> {
    return isLayered(map) ? map : new Layered<V>({ map, self: {} }, new Map(), map.size);
  }

  /**
   * The map with some entries changed.
   * @param changes undefined: the entry is deleted
   * @returns this map when nothing changes
   */
  with(changes: Iterable<readonly [string, V | undefined]>): Layered<V> {
    const below = this.#below.map;
    const above = new Map(this.#above);
    let { size } = this;
    let isSame = true;
    for (const [key, value] of changes) {
      if (value === undefined) {
        if (!(above.has(key) ? above.get(key) !== undefined : below.has(key))) continue;
        isSame = false;
        size -= 1;
        if (below.has(key)) above.set(key, undefined);
        else above.delete(key);
        continue;
      }
      const old = above.has(key) ? above.get(key) : below.get(key);
      if (old === value) continue;
      isSame = false;
      size += Number(old === undefined);
      if (below.get(key) === value) above.delete(key);
      else above.set(key, value);
    }
    if (isSame) return this;
    const next = new Layered(this.#below, above, size);
    return above.size <= Math.max(layerMin, below.size * layerShare) ? next : next.#flat();
  }

  /**
   * Keeps the entries below in another form, such as a compressed one: here, and in all maps that share them.
   * @param form makes a map with equal entries
   */
  keepAs(form: (map: ReadonlyMap<string, V>) => ReadonlyMap<string, V>): void {
    this.#below.map = form(this.#below.map);
  }

  #flat(): Layered<V> {
    const made = { from: this.#below.self, keys: [...this.#above.keys()] };
    return new Layered<V>({ map: new Map(this), made, self: {} }, new Map(), this.size);
  }

  get(key: string): V | undefined {
    const value = this.#above.get(key);
    return value !== undefined || this.#above.has(key) ? value : this.#below.map.get(key);
  }

  has(key: string): boolean {
    return this.#above.has(key) ? this.#above.get(key) !== undefined : this.#below.map.has(key);
  }

  *entries(): MapIterator<[string, V]> {
    const { map } = this.#below;
    for (const entry of map) {
      const own = this.#above.get(entry[0]);
      if (own !== undefined) yield [entry[0], own];
      else if (!this.#above.has(entry[0])) yield entry;
    }
    for (const [key, value] of this.#above) if (value !== undefined && !map.has(key)) yield [key, value];
  }

  [Symbol.iterator](): MapIterator<[string, V]> {
    return this.entries();
  }

  *keys(): MapIterator<string> {
    const { map } = this.#below;
    for (const key of map.keys()) if (this.has(key)) yield key;
    for (const [key, value] of this.#above) if (value !== undefined && !map.has(key)) yield key;
  }

  *values(): MapIterator<V> {
    for (const [, value] of this.entries()) yield value;
  }

  forEach(callback: (value: V, key: string, map: ReadonlyMap<string, V>) => void): void {
    const above = this.#above;
    const { map } = this.#below;
    map.forEach((value, key) => {
      const own = above.size === 0 ? undefined : above.get(key);
      if (own !== undefined) callback(own, key, this);
      else if (!above.has(key)) callback(value, key, this);
    });
    above.forEach((value, key) => {
      if (value !== undefined && !map.has(key)) callback(value, key, this);
    });
  }

  /** The keys in which two maps may differ; undefined when they have no known map in common. */
  static layers<V>(a: ReadonlyMap<string, V>, b: ReadonlyMap<string, V>): ReadonlySet<string> | undefined {
    if (!isLayered(a) || !isLayered(b)) return undefined;
    const [one, other] = [a.#below, b.#below];
    const between =
      one === other
        ? []
        : one.made?.from === other.self
          ? one.made.keys
          : other.made?.from === one.self && other.made.keys;
    return between ? new Set([...b.#above.keys(), ...a.#above.keys(), ...between]) : undefined;
  }
}

function isLayered<V>(map: ReadonlyMap<string, V>): map is Layered<V> {
  return map instanceof Layered;
}

/**
 * The keys whose values differ between two maps, or that only one of them has: those of `b` first. Values are compared by identity.
 */
export function differing<V>(a: ReadonlyMap<string, V>, b: ReadonlyMap<string, V>): readonly string[] {
  if (a === b) return [];
  const layers = Layered.layers(a, b);
  if (layers) return [...layers].filter((key) => a.get(key) !== b.get(key));
  const found: string[] = [];
  for (const [key, value] of b) if (a.get(key) !== value) found.push(key);
  for (const key of a.keys()) if (!b.has(key)) found.push(key);
  return found;
}
