import type { Carved, TreeBranch } from './carve.ts';
import { conditionOf } from './keys.ts';
import { naturalName, type ChainNamer } from './names.ts';
import type { TreeChain, LinkedRule } from './program.ts';

/** All rules for one key, in the order of the files. */
export interface Stop {
  readonly key: string;
  readonly weight: number;
  readonly rules: readonly LinkedRule[];
}

interface MeasuredChain {
  readonly chain: TreeChain;
  readonly levels: number;
  /** The most rules that a packet is tested against, from here to a leaf. */
  readonly steps: number;
}

/** A part of a tree with its chain. */
export type Grown = MeasuredChain &
  (
    | { readonly kind: 'leaf'; readonly rules: readonly LinkedRule[] }
    | { readonly kind: 'fork'; readonly prefixes: readonly Prefix[]; readonly below: readonly Grown[] }
  );

/** A prefix that a fork tests: a key with it, and its length in bits. */
type Prefix = Pick<TreeBranch<Stop>, 'key' | 'length'>;

/** Old rule → new rule of the same chain and key, with another target. */
export type Swap = ReadonlyMap<LinkedRule, LinkedRule>;

/**
 * Makes the chains of a tree, each after those that it jumps to.
 * @param before an earlier tree: parts that are equal to its parts are these, and their chains are not made again
 */
export function grow(carved: Carved<Stop>, namer: ChainNamer, before?: Grown): Grown {
  if (carved.kind === 'leaf') {
    if (before?.kind === 'leaf' && hasRulesOf(carved.items, before.rules)) return before;
    const rules = carved.items.flatMap((stop) => stop.rules);
    return leaf(rules, leafChain(rules, namer));
  }
  const same = before?.kind === 'fork' ? before : undefined;
  const below = carved.branches.map((branch, at) => grow(branch.below, namer, same?.below[at]));
  const isSame = same && isEqual(same.below, below) && carved.branches.every(hasPrefixOf(same.prefixes));
  return isSame
    ? same
    : fork(
        carved.branches.map(({ key, length }) => ({ key, length })),
        below,
        namer,
      );
}

const isEqual = <T>(a: readonly T[], b: readonly T[]): boolean =>
  a.length === b.length && a.every((one, at) => one === b[at]);

/** Whether these are the rules of stops, in order. Most leaves stay, so it makes no list. */
function hasRulesOf(stops: readonly Stop[], rules: readonly LinkedRule[]): boolean {
  let at = 0;
  for (const stop of stops) for (const rule of stop.rules) if (rules[at++] !== rule) return false;
  return at === rules.length;
}

const hasPrefixOf =
  (prefixes: readonly Prefix[]) =>
  ({ key, length }: Prefix, at: number): boolean =>
    prefixes[at]?.key === key && prefixes[at]?.length === length;

/** The tree with some rules swapped: only chains on the path to one of them are made again. */
export function regrow(grown: Grown, swap: Swap, namer: ChainNamer): Grown {
  if (grown.kind === 'leaf') {
    const rules = swapped(grown.rules, swap);
    return rules === grown.rules ? grown : leaf(rules, leafChain(rules, namer));
  }
  const below = grown.below.map((one) => regrow(one, swap, namer));
  return isEqual(below, grown.below) ? grown : fork(grown.prefixes, below, namer);
}

/** The rules with some swapped; the same list when none of them is. */
export function swapped(rules: readonly LinkedRule[], swap: Swap): readonly LinkedRule[] {
  return rules.some((rule) => swap.has(rule)) ? rules.map((rule) => swap.get(rule) ?? rule) : rules;
}

/** Every chain of a tree. */
export function* chainsOf(grown: Grown): Generator<TreeChain> {
  yield grown.chain;
  if (grown.kind === 'fork') for (const one of grown.below) yield* chainsOf(one);
}

const leaf = (rules: readonly LinkedRule[], chain: TreeChain): Grown => ({
  kind: 'leaf',
  rules,
  chain,
  levels: 1,
  steps: rules.length,
});

function fork(prefixes: readonly Prefix[], below: readonly Grown[], namer: ChainNamer): Grown {
  const bodies = prefixes.map(({ key, length }, at) => `${conditionOf(key, length)}-g ${below[at]?.chain.name}`);
  const height = 1 + Math.max(...below.map(({ chain }) => chain.height));
  return {
    kind: 'fork',
    prefixes,
    below,
    chain: namer.add('SLUICE-T', bodies, height),
    levels: 1 + Math.max(...below.map(({ levels }) => levels)),
    steps: Math.max(...below.map(({ steps }, at) => at + 1 + steps)),
  };
}

/** Leaves by their first rule. Rules of unchanged files keep their identity, so most leaves are made once. */
const leaves = new WeakMap<LinkedRule, { readonly rules: readonly LinkedRule[]; readonly chain: TreeChain }>();

function leafChain(rules: readonly LinkedRule[], namer: ChainNamer): TreeChain {
  const [first] = rules;
  const known = first && leaves.get(first);
  if (known && isEqual(known.rules, rules) && namer.adopt([known.chain])) return known.chain;
  const height = 1 + Math.max(0, ...rules.map(({ body }) => body.height));
  const texts = rules.map(({ body }) => body.text);
  const chain = namer.add('SLUICE-T', texts, height);
  // Only the natural name depends on the rules alone.
  if (first && chain.name === naturalName('SLUICE-T', chain.digest)) leaves.set(first, { rules, chain });
  return chain;
}
