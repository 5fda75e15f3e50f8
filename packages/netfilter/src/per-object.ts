/**
 * The answer of this project to "did it change": an unchanged value keeps its identity, so what was computed from it is still right.
 * Code that makes a new bundle, program or state from the last one keeps the objects of unchanged parts (`Layered`, `ResolveCache`,
 * `relink`); code that computes from a part keeps the result here.
 */

/** `make`, computed once per object. The result is freed with the object, which must not change. */
export function perObject<O extends object, T>(make: (owner: O) => T): (owner: O) => T {
  const known = new WeakMap<O, { readonly value: T }>();
  return (owner) => {
    const found = known.get(owner);
    if (found) return found.value;
    const value = make(owner);
    known.set(owner, { value });
    return value;
  };
}

/** Results per object and key: `make` is called for the first of equal pairs. */
export type PerKey<O extends object, T> = (owner: O, key: string, make: () => T) => T;

/** The results are freed with the object. */
export function perKey<O extends object, T>(): PerKey<O, T> {
  const tableOf = perObject<object, Map<string, { readonly value: T }>>(() => new Map());
  return (owner, key, make) => {
    const table = tableOf(owner);
    const found = table.get(key);
    if (found) return found.value;
    const value = make();
    table.set(key, { value });
    return value;
  };
}
