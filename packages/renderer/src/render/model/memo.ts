import { type ServiceChainNames, chainNames } from './chain-names.ts';

interface MemoSlot {
  readonly inputs: readonly unknown[];
  readonly value: unknown;
}

/** The number of names that are always kept: about a megabyte. */
export const namesKept = 10_000;

/**
 * Results of earlier renders of the same cluster, so that only changed parts are computed again. A value belongs to an owner object and
 * is valid as long as its inputs are the same objects; it is freed with its owner.
 *
 * Invariant: a value depends on its owner and inputs only.
 */
export class Memo {
  readonly #slots = new Map<string, WeakMap<object, MemoSlot>>();
  readonly #last = new Map<string, unknown>();
  /** Chain names of earlier renders stay registered: texts that are not compiled again do not register theirs. */
  names: ServiceChainNames;
  /** The number of names after the first full render. */
  #namesOfAll: number | undefined;

  /** @param names for tests in which chain names collide */
  constructor(names: ServiceChainNames = chainNames()) {
    this.names = names;
  }

  /** The value of `owner` under `what`: the last one, or a new one from `make` if an input is a different object. */
  of<T>(what: string, owner: object, inputs: readonly unknown[], make: () => T): T {
    let slots = this.#slots.get(what);
    if (slots === undefined) this.#slots.set(what, (slots = new WeakMap()));
    const slot = slots.get(owner);
    if (slot !== undefined && sameList(slot.inputs, inputs)) return slot.value as T;
    const value = make();
    slots.set(owner, { inputs, value });
    return value;
  }

  /** Returns the last value under `what` if it is equal to this one, so that values that depend on it stay valid. */
  same<T>(what: string, value: T): T {
    const last = this.#last.get(what);
    if (sameMeaning(last, value)) return last as T;
    this.#last.set(what, value);
    return value;
  }

  /** Clears the memo after a render when most names are of removed Services. */
  tidy(): void {
    this.#namesOfAll ??= this.names.size;
    if (this.names.size > Math.max(namesKept, 2 * this.#namesOfAll)) this.clear();
  }

  /** Drops the values: they are computed again where they are needed. Names stay. */
  forget(): void {
    this.#slots.clear();
    this.#last.clear();
  }

  /** Drops all values and names. */
  clear(): void {
    this.#namesOfAll = undefined;
    this.forget();
    this.names = chainNames();
  }
}

function sameList(a: readonly unknown[], b: readonly unknown[]): boolean {
  return a.length === b.length && a.every((item, index) => item === b[index]);
}

/**
 * Whether two read values are equal except for `object`, their source: two manifests that differ in an annotation make the same
 * rules.
 */
export function sameMeaning(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  if (a instanceof Map && b instanceof Map) return sameMeaning([...a], [...b]);
  const [keysOfA, keysOfB] = [meaningfulKeys(a), meaningfulKeys(b)];
  if (keysOfA.length !== keysOfB.length) return false;
  return keysOfA.every(
    (key) =>
      Object.hasOwn(b, key) && sameMeaning((a as Record<string, unknown>)[key], (b as Record<string, unknown>)[key]),
  );
}

function meaningfulKeys(value: object): string[] {
  return Object.keys(value).filter((key) => key !== 'object');
}
