import { addAll } from '../../add-all.ts';
import { carve } from './carve.ts';
import { chainsOf, grow, type Grown, regrow, type Stop, type Swap, swapped } from './grow.ts';
import { isAskable, serviceOf } from './keys.ts';
import type { ChainNamer } from './names.ts';
import type { TreeChain } from './program.ts';
import type { BaseRule } from './unit.ts';

/** The root of one dispatch chain, what stands behind it, and how far a packet can walk in it. */
export interface Dispatch {
  readonly root: TreeChain;
  readonly tops: readonly Top[];
  /** What is left, one by one. */
  readonly rest: readonly BaseRule[];
  readonly levels: number;
  /** Rules that a packet is held against at most, from the top of a tree to its leaf. */
  readonly steps: number;
  /** Why some rules cannot be put behind a tree without changing what they mean. */
  readonly errors: readonly string[];
}

/** A tree that a root asks. */
interface Top {
  readonly condition: string;
  readonly tree: Grown;
}

/** The roots of base chains by their names. */
type Roots = ReadonlyMap<string, TreeChain>;

/**
 * Puts a dispatch chain behind trees. The root asks the tree of addresses, then that of the ports of the node's own addresses,
 * then that of ports of any address, then what is left, one by one: the chain's tail.
 *
 * The root jumps to a tree and a tree only goes: so a packet that no leaf decides comes back to the root and meets the tail.
 * A load-balancer address in the node's own network would not reach node ports otherwise.
 *
 * @param rules of one base chain, in order
 * @param roots of the base chains that these rules lead to
 */
export function dispatch(rules: readonly BaseRule[], namer: ChainNamer, roots: Roots): Dispatch {
  const { address, local, port, rest, errors } = sortRules(rules);
  const tops = (
    [
      ['', address],
      ['-m addrtype --dst-type LOCAL ', local],
      ['', port],
    ] as const
  ).flatMap(([condition, stops]) =>
    stops.length === 0 ? [] : [{ condition, tree: grow(carve(stops, isAskable(stops[0]?.key ?? '')), namer) }],
  );
  return rooted({ tops, rest, errors }, namer, roots);
}

/** The same dispatch chain with some rules swapped, which does not change its shape. */
export function redispatch({ tops, rest, errors }: Dispatch, swap: Swap, namer: ChainNamer, roots: Roots): Dispatch {
  const grown = tops.map(({ condition, tree }) => ({ condition, tree: regrow(tree, swap, namer) }));
  return rooted({ tops: grown, rest: swapped(rest, swap), errors }, namer, roots);
}

/** Every chain behind a dispatch chain, its root included. */
export function* dispatchedChains({ root, tops }: Dispatch): Generator<TreeChain> {
  yield root;
  for (const { tree } of tops) yield* chainsOf(tree);
}

function rooted(parts: Pick<Dispatch, 'tops' | 'rest' | 'errors'>, namer: ChainNamer, roots: Roots): Dispatch {
  const { tops, rest } = parts;
  const errors = [...parts.errors];
  const lines = tops.map(({ condition, tree }) => `${condition}-j ${tree.chain.name}`);
  let height = Math.max(0, ...tops.map(({ tree }) => tree.chain.height));
  for (const { body, calls } of rest) {
    const callee = calls === undefined ? undefined : roots.get(calls);
    if (calls !== undefined && !callee)
      errors.push(`a rule leads to ${calls}, which has no root of its own before this one`);
    lines.push(`${body.text}${callee?.name ?? ''}`);
    height = Math.max(height, body.height, callee?.height ?? 0);
  }
  return {
    root: namer.add('SLUICE-R', lines, height + 1),
    tops,
    rest,
    levels: Math.max(0, ...tops.map(({ tree }) => tree.levels)),
    steps: Math.max(0, ...tops.map(({ tree }) => tree.steps)),
    errors,
  };
}

interface Sorted {
  readonly address: readonly Stop[];
  readonly local: readonly Stop[];
  readonly port: readonly Stop[];
  readonly rest: readonly BaseRule[];
  readonly errors: readonly string[];
}

function sortRules(rules: readonly BaseRule[]): Sorted {
  const stops = {
    address: new Map<string, BaseRule[]>(),
    local: new Map<string, BaseRule[]>(),
    port: new Map<string, BaseRule[]>(),
  };
  const rest: BaseRule[] = [];
  const errors: string[] = [];
  for (const rule of rules) {
    const { place } = rule;
    if (place.kind === 'rest') {
      rest.push(rule);
      continue;
    }
    if (rest.length > 0) errors.push(`rule "${rule.body.text}" stands behind one that every packet is held against`);
    if (rule.calls !== undefined) errors.push(`rule "${rule.body.text}${rule.calls}" leads to another dispatch chain`);
    push(stops[place.kind], place.key, earlier(rule, stops, errors), rule);
  }
  const list = (kind: keyof typeof stops): readonly Stop[] => [...stops[kind]].map(toStop).toSorted(byKey);
  return { address: list('address'), local: list('local'), port: list('port'), rest, errors };
}

/**
 * The rules of the same protocol and port that stand before this one, and that the trees would ask after it: with a node port
 * and an external address of the node itself, both match one packet. The first of them decides, so it is asked here, too.
 */
function earlier(
  rule: BaseRule,
  stops: Readonly<Record<'address' | 'local' | 'port', ReadonlyMap<string, readonly BaseRule[]>>>,
  errors: string[],
): readonly BaseRule[] {
  if (rule.place.kind === 'rest' || rule.place.kind === 'port') return [];
  const service = serviceOf(rule.place.key);
  const local = rule.place.kind === 'address' ? (stops.local.get(service) ?? []) : [];
  const before = [...local, ...(stops.port.get(service) ?? [])];
  if (before.some(({ ends }) => !ends))
    errors.push(`rule "${rule.body.text}" stands behind one of its port that decides nothing`);
  return before;
}

function push(map: Map<string, BaseRule[]>, key: string, before: readonly BaseRule[], rule: BaseRule): void {
  const known = map.get(key);
  if (!known) map.set(key, [...before, rule]);
  else addAll(known, [...before.filter((one) => !known.includes(one)), rule]);
}

function toStop([key, rules]: readonly [string, readonly BaseRule[]]): Stop {
  return { key, weight: rules.length, rules };
}

function byKey(a: Stop, b: Stop): number {
  return a.key < b.key ? -1 : 1;
}
