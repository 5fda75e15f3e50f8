/** An item of a tree: a key, and its number of rules. Keys are unique and of equal length. */
interface WeightedKey {
  /** Bits, 16 to a character. */
  readonly key: string;
  readonly weight: number;
}

/** A tree over keys: small sets are leaves, larger ones are split by prefixes that are tested in order. */
export type Carved<T> =
  | { readonly kind: 'leaf'; readonly items: readonly T[] }
  | { readonly kind: 'fork'; readonly branches: readonly TreeBranch<T>[] };

/** One prefix of a fork, with all keys below the prefix that no earlier branch has. */
export interface TreeBranch<T> {
  /** A key with the prefix. */
  readonly key: string;
  /** In bits. */
  readonly length: number;
  readonly size: number;
  readonly below: Carved<T>;
}

/** The most rules that a packet tests one by one. */
const leafMax = 16;

/**
 * Splits keys into a tree that is balanced by weight for any set of keys: a fork carves off the deepest prefixes that hold at
 * least a quarter of the largest power of two in its weight (an eighth above 4,096), the most specific first; the last branch has the
 * rest. So a fork has at most 8 (16) branches, and each has less than half (a quarter) of that power. Where a rule cannot match a
 * prefix, the heavier half below it becomes a branch, with at least an eighth (a sixteenth).
 * Depth is logarithmic even for nested prefixes, as in `2001:db8::1`, `::2`, `::4`, `::8`, …; a trie of nibbles got 28 deep.
 *
 * The tree depends on keys and weights alone, not on history: equal sets give equal trees on every node and after every restart. It
 * depends on the weight only by its power of two: one more key occasionally moves the border of one subtree, and otherwise rewrites the
 * path to it.
 *
 * @param items sorted by key
 * @param cuts whether a rule can match a prefix of this length
 */
export function carve<T extends WeightedKey>(items: readonly T[], cuts: (length: number) => boolean): Carved<T> {
  const sums = new Float64Array(items.length + 1);
  for (let at = 0; at < items.length; at++) sums[at + 1] = (sums[at] as number) + (items[at] as T).weight;
  const total = sums[items.length] as number;
  if (total <= leafMax || items.length <= 1) return { kind: 'leaf', items };
  const power = 31 - Math.clz32(total);
  const cutter: Cutter<T> = {
    items,
    sums,
    cuts,
    least: 2 ** (power > 11 ? power - 3 : power - 2),
    taken: new Uint8Array(items.length),
    branches: [],
  };
  if (cut(cutter, 0, items.length) > 0) take(cutter, 0, items.length, 0);
  return { kind: 'fork', branches: cutter.branches };
}

interface Cutter<T> {
  readonly items: readonly T[];
  /** The weight of all items before each. */
  readonly sums: Float64Array;
  readonly cuts: (length: number) => boolean;
  /** The least weight of a branch. */
  readonly least: number;
  /** 1 for items that are in a branch. */
  readonly taken: Uint8Array;
  readonly branches: TreeBranch<T>[];
}

/** Carves branches out of the items from `from` to `to`, which are all that share a prefix. Returns the weight that is left. */
function cut<T extends WeightedKey>(cutter: Cutter<T>, from: number, to: number): number {
  const { items, sums, cuts, least } = cutter;
  const weight = (sums[to] as number) - (sums[from] as number);
  // No part of it is a branch.
  if (weight < least) return weight;
  const first = items[from] as T;
  const length = to - from === 1 ? first.key.length * 16 : commonPrefix(first.key, (items[to - 1] as T).key);
  const middle = to - from === 1 ? from : firstWithBit(items, from, to, length);
  const [low, high] = middle === from ? [0, first.weight] : [cut(cutter, from, middle), cut(cutter, middle, to)];
  if (low + high < least) return low + high;
  if (cuts(length)) {
    take(cutter, from, to, length);
    return 0;
  }
  // Each is below the least, but a branch of both could exceed the limit of half of the fork.
  if (low > high) take(cutter, from, middle, length);
  else take(cutter, middle, to, length);
  return Math.min(low, high);
}

/**
 * Makes one branch of the items left between `from` and `to`. Its prefix is the longest that they share, so that misses end early.
 * @param length of a prefix that all of them share; used where a rule cannot match the longest one
 */
function take<T extends WeightedKey>(cutter: Cutter<T>, from: number, to: number, length: number): void {
  const rest: T[] = [];
  let size = 0;
  for (let at = from; at < to; at++) {
    if (cutter.taken[at] === 1) continue;
    const item = cutter.items[at] as T;
    cutter.taken[at] = 1;
    rest.push(item);
    size += item.weight;
  }
  const { key } = rest[0] as T;
  const shared = rest.length === 1 ? key.length * 16 : commonPrefix(key, (rest.at(-1) as T).key);
  const below = carve(rest, cutter.cuts);
  cutter.branches.push({ key, length: cutter.cuts(shared) ? shared : length, size, below });
}

/** The length of the common prefix in bits. */
function commonPrefix(a: string, b: string): number {
  for (let at = 0; at < a.length; at++) {
    const difference = a.charCodeAt(at) ^ b.charCodeAt(at);
    if (difference !== 0) return at * 16 + Math.clz32(difference) - 16;
  }
  return a.length * 16;
}

/** The first of the sorted items that has bit `bit` set; all share the bits before it. */
function firstWithBit(items: readonly WeightedKey[], from: number, to: number, bit: number): number {
  const mask = 0x8000 >> (bit & 15);
  let [low, high] = [from, to];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (((items[middle] as WeightedKey).key.charCodeAt(bit >> 4) & mask) === 0) low = middle + 1;
    else high = middle;
  }
  return low;
}
