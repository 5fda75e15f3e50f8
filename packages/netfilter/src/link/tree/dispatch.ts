import { addAll } from '../../add-all.ts';
import { carve } from './carve.ts';
import { chainsOf, grow, type Grown, regrow, type Stop, type Swap, swapped } from './grow.ts';
import { canMatchPrefix, serviceOf } from './keys.ts';
import type { ChainNamer } from './names.ts';
import type { TreeChain, LinkedRule } from './program.ts';

/** The root of one dispatch chain, its trees and tail, and the cost for a packet. */
export interface Dispatch {
  readonly root: TreeChain;
  readonly tops: readonly Top[];
  /** The rules outside of trees, tested one by one. */
  readonly rest: readonly LinkedRule[];
  readonly levels: number;
  /** The most rules that a packet is tested against, from the top of a tree to its leaf. */
  readonly steps: number;
  /** Why some rules cannot move into a tree without a change of meaning. */
  readonly errors: readonly string[];
}

/** A tree that a root jumps to. */
interface Top {
  readonly condition: string;
  readonly tree: Grown;
}

/** The roots of base chains by their names. */
type Roots = ReadonlyMap<string, TreeChain>;

/**
 * Turns a dispatch chain into trees. The root jumps to the tree of addresses, then to that of the ports of the node's own addresses,
 * then to that of ports of any address; then it has the other rules, the chain's tail.
 *
 * The root enters a tree by a jump, and trees use gotos only: so a packet that matches in no leaf returns to the root and its tail.
 * Otherwise a load-balancer address in the node's own network would not reach node ports.
 *
 * @param rules of one base chain, in order
 * @param roots of the base chains that these rules jump to
 */
export function dispatch(rules: readonly LinkedRule[], namer: ChainNamer, roots: Roots): Dispatch {
  const { address, local, port, rest, errors } = sortRules(rules);
  const tops = (
    [
      ['', address],
      ['-m addrtype --dst-type LOCAL ', local],
      ['', port],
    ] as const
  ).flatMap(([condition, stops]) =>
    stops.length === 0 ? [] : [{ condition, tree: grow(carve(stops, canMatchPrefix(stops[0]?.key ?? '')), namer) }],
  );
  return rooted({ tops, rest, errors }, namer, roots);
}

/** The dispatch chain with some rules swapped, which keeps its shape. */
export function redispatch({ tops, rest, errors }: Dispatch, swap: Swap, namer: ChainNamer, roots: Roots): Dispatch {
  const grown = tops.map(({ condition, tree }) => ({ condition, tree: regrow(tree, swap, namer) }));
  return rooted({ tops: grown, rest: swapped(rest, swap), errors }, namer, roots);
}

/** Every chain of a dispatch chain: its root, and the chains of its trees. */
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
    if (calls !== undefined && !callee) errors.push(`a rule jumps to ${calls}, which is not linked before this chain`);
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
  readonly rest: readonly LinkedRule[];
  readonly errors: readonly string[];
}

function sortRules(rules: readonly LinkedRule[]): Sorted {
  const stops = {
    address: new Map<string, LinkedRule[]>(),
    local: new Map<string, LinkedRule[]>(),
    port: new Map<string, LinkedRule[]>(),
  };
  const rest: LinkedRule[] = [];
  const errors: string[] = [];
  for (const rule of rules) {
    const { place } = rule;
    if (place.kind === 'rest') {
      rest.push(rule);
      continue;
    }
    if (rest.length > 0) errors.push(`rule "${rule.body.text}" comes after a rule that is tested for every packet`);
    if (rule.calls !== undefined) errors.push(`rule "${rule.body.text}${rule.calls}" jumps to another dispatch chain`);
    push(stops[place.kind], place.key, earlier(rule, stops, errors), rule);
  }
  const list = (kind: keyof typeof stops): readonly Stop[] => [...stops[kind]].map(toStop).toSorted(byKey);
  return { address: list('address'), local: list('local'), port: list('port'), rest, errors };
}

/**
 * The earlier rules of the same protocol and port that the trees would test after this one: with a node port and an external address of
 * the node itself, both match one packet. The first of them decides, so it is repeated before this one.
 */
function earlier(
  rule: LinkedRule,
  stops: Readonly<Record<'address' | 'local' | 'port', ReadonlyMap<string, readonly LinkedRule[]>>>,
  errors: string[],
): readonly LinkedRule[] {
  if (rule.place.kind === 'rest' || rule.place.kind === 'port') return [];
  const service = serviceOf(rule.place.key);
  const local = rule.place.kind === 'address' ? (stops.local.get(service) ?? []) : [];
  const before = [...local, ...(stops.port.get(service) ?? [])];
  if (before.some(({ isTerminal }) => !isTerminal))
    errors.push(`rule "${rule.body.text}" comes after a rule of the same port that is not terminal`);
  return before;
}

function push(map: Map<string, LinkedRule[]>, key: string, before: readonly LinkedRule[], rule: LinkedRule): void {
  const known = map.get(key);
  if (!known) map.set(key, [...before, rule]);
  else addAll(known, [...before.filter((one) => !known.includes(one)), rule]);
}

function toStop([key, rules]: readonly [string, readonly LinkedRule[]]): Stop {
  return { key, weight: rules.length, rules };
}

function byKey(a: Stop, b: Stop): number {
  return a.key < b.key ? -1 : 1;
}
