/**
 * The answer of this project to "did it change": an unchanged value keeps its identity, so what was computed from it is still right.
 * Code that makes a new bundle, program or state from the last one keeps the objects of unchanged parts (`Layered`, `ResolveCache`,
 * `relink`); code that computes from a part keeps the result here.
 */

/** `make`, computed once per object. The result is freed with the object, which must not change. */
export function perObject<O extends object, T>(make: (owner: O) => T): (owner: O) => T {
  const known = new WeakMap<O, T>();
  return (owner) => {
    const found = known.get(owner);
    if (found !== undefined || known.has(owner)) return found as T;
    const value = make(owner);
    known.set(owner, value);
    return value;
  };
}

/**
 * As `perObject`, for results that take as much memory as their objects: one that nothing uses is freed when garbage is collected, and made
 * again when it is needed.
 */
export function perObjectInUse<O extends object, T extends object>(make: (owner: O) => T): (owner: O) => T {
  const known = new WeakMap<O, WeakRef<T>>();
  return (owner) => {
    const found = known.get(owner)?.deref();
    if (found !== undefined) return found;
    const value = make(owner);
    known.set(owner, new WeakRef(value));
    return value;
  };
}

/** Results per object and key: `make` is called for the first of equal pairs. */
type PerKey<O extends object, T> = (owner: O, key: string, make: () => T) => T;

/** The results are freed with the object. */
export function perKey<O extends object, T>(): PerKey<O, T> {
  const known = new WeakMap<O, Keyed<T>>();
  return (owner, key, make) => {
    const first = known.get(owner);
    if (!first) {
      const value = make();
      // `make` may have asked for another key.
      if (known.has(owner)) more(known.get(owner)!).set(key, value);
      else known.set(owner, { key, value, others: undefined });
      return value;
    }
    if (first.key === key) return first.value;
    const others = more(first);
    const found = others.get(key);
    if (found !== undefined || others.has(key)) return found as T;
    const value = make();
    others.set(key, value);
    return value;
  };
}

/** The results of one object. Most have one key, for which a table would be large. */
interface Keyed<T> {
  readonly key: string;
  readonly value: T;
  others: Map<string, T> | undefined;
}

function more<T>(keyed: Keyed<T>): Map<string, T> {
  keyed.others ??= new Map();
  return keyed.others;
}
