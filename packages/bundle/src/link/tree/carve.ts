/** What a tree sorts: a key, and how many rules stand behind it. Keys are unique and have one length. */
export interface Keyed {
  /** Bits, 16 to a character. */
  readonly key: string;
  readonly weight: number;
}

/** A tree over keys: small sets as they are, larger ones parted by prefixes that are asked in order. */
export type Carved<T> =
  | { readonly kind: 'leaf'; readonly items: readonly T[] }
  | { readonly kind: 'fork'; readonly ways: readonly Way<T>[] };

/** One prefix of a fork. What it leads to holds all keys below it that no way before it holds. */
export interface Way<T> {
  /** A key with the prefix. */
  readonly key: string;
  /** In bits. */
  readonly length: number;
  readonly size: number;
  readonly below: Carved<T>;
}

/** So many rules are walked one by one. */
export const leafMax = 16;

/**
 * Parts keys into a tree that is balanced by weight, whatever the keys: a fork carves off the deepest prefixes that hold at
 * least a quarter of the largest power of two in its weight (an eighth above 4,096), the most specific first, and the rest
 * goes on behind the last one. So it has at most 8 (16) ways, and each way leads to less than half (a quarter) of that power. Where a
 * prefix cannot be asked for, the heavier half below it becomes a way, which holds an eighth (a sixteenth) at least.
 * Depth is logarithmic even where prefixes nest, as in `2001:db8::1`, `::2`, `::4`, `::8`, …; a trie of nibbles got 28 deep.
 *
 * The tree depends on the keys and weights alone, not on what stood before: equal sets give equal trees on every node and
 * after every restart. It depends on the weight by its power of two only: one more key moves a border of one subtree now and
 * then, and otherwise rewrites the one path that leads to it.
 *
 * @param items sorted by key
 * @param cuts whether a prefix of this length can be asked for
 */
export function carve<T extends Keyed>(items: readonly T[], cuts: (length: number) => boolean): Carved<T> {
  const total = items.reduce((sum, { weight }) => sum + weight, 0);
  if (total <= leafMax || items.length <= 1) return { kind: 'leaf', items };
  const power = 31 - Math.clz32(total);
  const cutter: Cutter<T> = {
    items,
    cuts,
    least: 2 ** (power > 11 ? power - 3 : power - 2),
    gone: new Uint8Array(items.length),
    ways: [],
  };
  if (cut(cutter, 0, items.length) > 0) take(cutter, 0, items.length, 0);
  return { kind: 'fork', ways: cutter.ways };
}

interface Cutter<T> {
  readonly items: readonly T[];
  readonly cuts: (length: number) => boolean;
  /** The least weight of a way. */
  readonly least: number;
  /** 1 for items that a way holds. */
  readonly gone: Uint8Array;
  readonly ways: Way<T>[];
}

/** Carves ways out of the items from `from` to `to`, which are all that share a prefix. Returns the weight that is left. */
function cut<T extends Keyed>(cutter: Cutter<T>, from: number, to: number): number {
  const { items, cuts, least } = cutter;
  const first = items[from] as T;
  const length = to - from === 1 ? first.key.length * 16 : commonPrefix(first.key, (items[to - 1] as T).key);
  const middle = to - from === 1 ? from : firstWithBit(items, from, to, length);
  const [low, high] = middle === from ? [0, first.weight] : [cut(cutter, from, middle), cut(cutter, middle, to)];
  if (low + high < least) return low + high;
  if (cuts(length)) {
    take(cutter, from, to, length);
    return 0;
  }
  // Both are less than the least, and together twice as much would come up: then a way could hold almost half of all.
  if (low > high) take(cutter, from, middle, length);
  else take(cutter, middle, to, length);
  return Math.min(low, high);
}

/**
 * Makes one way of what is left between `from` and `to`. Its prefix is as long as all of them share, so that misses end early.
 * @param length of a prefix that all of them share; it can be asked for unless that longest one can
 */
function take<T extends Keyed>(cutter: Cutter<T>, from: number, to: number, length: number): void {
  const rest: T[] = [];
  let size = 0;
  for (let at = from; at < to; at++) {
    if (cutter.gone[at] === 1) continue;
    const item = cutter.items[at] as T;
    cutter.gone[at] = 1;
    rest.push(item);
    size += item.weight;
  }
  const { key } = rest[0] as T;
  const shared = rest.length === 1 ? key.length * 16 : commonPrefix(key, (rest.at(-1) as T).key);
  const below = carve(rest, cutter.cuts);
  cutter.ways.push({ key, length: cutter.cuts(shared) ? shared : length, size, below });
}

/** How many bits two keys begin alike with. */
function commonPrefix(a: string, b: string): number {
  for (let at = 0; at < a.length; at++) {
    const difference = a.charCodeAt(at) ^ b.charCodeAt(at);
    if (difference !== 0) return at * 16 + Math.clz32(difference) - 16;
  }
  return a.length * 16;
}

/** The first of the sorted items that has bit `bit` set; all share the bits before it. */
function firstWithBit(items: readonly Keyed[], from: number, to: number, bit: number): number {
  const mask = 0x8000 >> (bit & 15);
  let [low, high] = [from, to];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (((items[middle] as Keyed).key.charCodeAt(bit >> 4) & mask) === 0) low = middle + 1;
    else high = middle;
  }
  return low;
}
