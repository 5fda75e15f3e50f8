import type { Carved } from './carve.ts';
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
    | { readonly kind: 'fork'; readonly conditions: readonly string[]; readonly below: readonly Grown[] }
  );

/** Old rule → new rule of the same chain and key, with another target. */
export type Swap = ReadonlyMap<LinkedRule, LinkedRule>;

/** Makes the chains of a tree, each after those that it jumps to. */
export function grow(carved: Carved<Stop>, namer: ChainNamer): Grown {
  if (carved.kind === 'leaf') {
    const rules = carved.items.flatMap((stop) => stop.rules);
    return leaf(rules, leafChain(rules, namer));
  }
  const below = carved.branches.map((branch) => grow(branch.below, namer));
  const conditions = carved.branches.map(({ key, length }) => conditionOf(key, length));
  return fork(conditions, below, namer);
}

/** The tree with some rules swapped: only chains on the path to one of them are made again. */
export function regrow(grown: Grown, swap: Swap, namer: ChainNamer): Grown {
  if (grown.kind === 'leaf') {
    const rules = swapped(grown.rules, swap);
    return rules === grown.rules ? grown : leaf(rules, leafChain(rules, namer));
  }
  const below = grown.below.map((one) => regrow(one, swap, namer));
  return below.every((one, at) => one === grown.below[at]) ? grown : fork(grown.conditions, below, namer);
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

function fork(conditions: readonly string[], below: readonly Grown[], namer: ChainNamer): Grown {
  const bodies = conditions.map((condition, at) => `${condition}-g ${below[at]?.chain.name}`);
  const height = 1 + Math.max(...below.map(({ chain }) => chain.height));
  return {
    kind: 'fork',
    conditions,
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
  const isSame = known?.rules.length === rules.length && known.rules.every((rule, at) => rule === rules[at]);
  if (known && isSame && namer.adopt([known.chain])) return known.chain;
  const height = 1 + Math.max(0, ...rules.map(({ body }) => body.height));
  const texts = rules.map(({ body }) => body.text);
  const chain = namer.add('SLUICE-T', texts, height);
  // Only the natural name depends on the rules alone.
  if (first && chain.name === naturalName('SLUICE-T', chain.digest)) leaves.set(first, { rules, chain });
  return chain;
}
