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
  readonly kind: TopKind;
  /** Its rules by their keys, sorted. */
  readonly stops: readonly Stop[];
  readonly tree: Grown;
}

type TopKind = 'address' | 'local' | 'port';

/** In the order in which the root jumps to them. */
const conditions = {
  address: '',
  local: '-m addrtype --dst-type LOCAL ',
  port: '',
} as const satisfies Record<TopKind, string>;
const topKinds = Object.keys(conditions) as readonly TopKind[];

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
  const { stops, rest, errors } = sortRules(rules);
  const tops = topKinds.flatMap((kind) => (stops[kind].length === 0 ? [] : [topOf(kind, stops[kind], namer)]));
  return rooted({ tops, rest, errors }, namer, roots);
}

function topOf(kind: TopKind, stops: readonly Stop[], namer: ChainNamer, before?: Grown): Top {
  return { kind, stops, tree: grow(carve(stops, canMatchPrefix(stops[0]?.key ?? '')), namer, before) };
}

/** How the rules of a dispatch chain differ from those before. */
export interface RuleChanges {
  /** Rules that have others at their places. */
  readonly swap: Swap;
  readonly removed: readonly LinkedRule[];
  /** Each before all rules of the tail. */
  readonly added: readonly LinkedRule[];
}

/**
 * The dispatch chain after some rules changed, which equals one of all rules. Only chains on the paths to these are made again.
 * @returns undefined where that depends on other rules, too: `dispatch` has to have all of them
 */
export function redispatch(
  before: Dispatch,
  changes: RuleChanges,
  namer: ChainNamer,
  roots: Roots,
): Dispatch | undefined {
  const { swap, removed, added } = changes;
  const { tops, errors } = before;
  const rest = swapped(before.rest, swap);
  const isAlone = tops.length === 1;
  const swappedTop = (top: Top): Top => ({
    ...top,
    stops: swappedStops(top.stops, swap, isAlone),
    tree: regrow(top.tree, swap, namer),
  });
  if (removed.length + added.length === 0) return rooted({ tops: tops.map(swappedTop), rest, errors }, namer, roots);
  // With more trees than one, rules of one may be repeated in another one.
  const [top] = tops;
  const isPlain = ({ place, calls }: LinkedRule): boolean => place.kind === top?.kind && calls === undefined;
  if (!top || !isAlone || errors.length > 0 || ![...removed, ...added].every(isPlain)) return undefined;
  const stops = changedStops(swappedStops(top.stops, swap, isAlone), removed, added);
  if (!stops || stops.length === 0) return undefined;
  return rooted({ tops: [topOf(top.kind, stops, namer, top.tree)], rest, errors }, namer, roots);
}

/** @param isAlone whether no other tree of the chain has rules, which may be repeated in this one: then a rule is under its own key alone */
function swappedStops(stops: readonly Stop[], swap: Swap, isAlone: boolean): readonly Stop[] {
  const swappedStop = (stop: Stop): Stop => {
    const rules = swapped(stop.rules, swap);
    return rules === stop.rules ? stop : { ...stop, rules };
  };
  if (!isAlone) return stops.map(swappedStop);
  const next = [...stops];
  for (const rule of swap.keys()) {
    const at = firstFrom(next, keyOf(rule));
    const stop = next[at];
    if (stop) next[at] = swappedStop(stop);
  }
  return next;
}

/** @returns undefined where one key has rules that stay and rules that come: their order is that of all files */
function changedStops(
  stops: readonly Stop[],
  removed: readonly LinkedRule[],
  added: readonly LinkedRule[],
): readonly Stop[] | undefined {
  const next = [...stops];
  const gone = new Set(removed);
  const coming = Map.groupBy(added, keyOf);
  for (const key of new Set([...removed.map(keyOf), ...coming.keys()])) {
    const at = firstFrom(next, key);
    const isThere = next[at]?.key === key;
    const left = isThere ? (next[at] as Stop).rules.filter((rule) => !gone.has(rule)) : [];
    const more = coming.get(key) ?? [];
    if (left.length > 0 && more.length > 0) return undefined;
    const rules = [...left, ...more];
    next.splice(at, isThere ? 1 : 0, ...(rules.length === 0 ? [] : [{ key, weight: rules.length, rules }]));
  }
  return next;
}

/** Where a rule is in the tree of its kind; empty in the tail. */
export const keyOf = ({ place }: LinkedRule): string => (place.kind === 'rest' ? '' : place.key);

/** The place of the first stop whose key is not before a key. */
function firstFrom(stops: readonly Stop[], key: string): number {
  let [low, high] = [0, stops.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((stops[middle] as Stop).key < key) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Every chain of a dispatch chain: its root, and the chains of its trees. */
export function* dispatchedChains({ root, tops }: Dispatch): Generator<TreeChain> {
  yield root;
  for (const { tree } of tops) yield* chainsOf(tree);
}

function rooted(parts: Pick<Dispatch, 'tops' | 'rest' | 'errors'>, namer: ChainNamer, roots: Roots): Dispatch {
  const { tops, rest } = parts;
  const errors = [...parts.errors];
  const lines = tops.map(({ kind, tree }) => `${conditions[kind]}-j ${tree.chain.name}`);
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
  readonly stops: Readonly<Record<TopKind, readonly Stop[]>>;
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
  const list = (kind: TopKind): readonly Stop[] => [...stops[kind]].map(toStop).toSorted(byKey);
  return { stops: { address: list('address'), local: list('local'), port: list('port') }, rest, errors };
}

/**
 * The earlier rules of the same protocol and port that the trees would test after this one: with a node port and an external address of
 * the node itself, both match one packet. The first of them decides, so it is repeated before this one.
 */
function earlier(
  rule: LinkedRule,
  stops: Readonly<Record<TopKind, ReadonlyMap<string, readonly LinkedRule[]>>>,
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
