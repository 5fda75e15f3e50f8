import { type ChainNames, chainNames } from './compile/names.ts';
import { sameMeaning } from './layer/unique.ts';

interface Slot {
  readonly inputs: readonly unknown[];
  readonly value: unknown;
}

/** So many names are kept in any case: about a megabyte. */
export const namesKept = 10_000;

/**
 * What earlier renders of the same cluster came to, so that only what changed is computed again. A value belongs to an object and
 * holds as long as its inputs are the same objects; with the object it goes away.
 *
 * Invariant: what is computed here depends on the owner and the inputs and on nothing else.
 */
export class Memo {
  readonly #slots = new Map<string, WeakMap<object, Slot>>();
  readonly #last = new Map<string, unknown>();
  /** Names that were given out before stay entered, so that texts that are not compiled again need not enter theirs. */
  names: ChainNames;
  /** How many names there were when all texts had been compiled. */
  #namesOfAll: number | undefined;

  /** @param names given only where chain names have to collide */
  constructor(names: ChainNames = chainNames()) {
    this.names = names;
  }

  /** The value of `owner` under `what`: the last one, or a new one when an input is another object. */
  of<T>(what: string, owner: object, inputs: readonly unknown[], make: () => T): T {
    let slots = this.#slots.get(what);
    if (slots === undefined) this.#slots.set(what, (slots = new WeakMap()));
    const slot = slots.get(owner);
    if (slot !== undefined && sameList(slot.inputs, inputs)) return slot.value as T;
    const value = make();
    slots.set(owner, { inputs, value });
    return value;
  }

  /** The last value under `what` where it means the same as this one: what depends on it need not be computed again. */
  same<T>(what: string, value: T): T {
    const last = this.#last.get(what);
    if (sameMeaning(last, value)) return last as T;
    this.#last.set(what, value);
    return value;
  }

  /** After a render: forgets everything when most names are of what is gone, so that the next one enters only what is there. */
  tidy(): void {
    this.#namesOfAll ??= this.names.size;
    if (this.names.size > Math.max(namesKept, 2 * this.#namesOfAll)) this.clear();
  }

  /** Forgets everything. */
  clear(): void {
    this.#namesOfAll = undefined;
    this.#slots.clear();
    this.#last.clear();
    this.names = chainNames();
  }
}

function sameList(a: readonly unknown[], b: readonly unknown[]): boolean {
  return a.length === b.length && a.every((item, index) => item === b[index]);
}
