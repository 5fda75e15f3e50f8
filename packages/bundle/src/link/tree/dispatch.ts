import { carve, type Carved } from './carve.ts';
import { conditionOf, isAskable, serviceOf } from './keys.ts';
import { naturalName, type Shelf } from './names.ts';
import type { TreeChain } from './program.ts';
import type { BaseRule } from './unit.ts';

/** The root of one dispatch chain, and how far a packet can walk in it. */
export interface Dispatch {
  readonly root: TreeChain;
  readonly levels: number;
  /** Rules that a packet is held against at most, from the top of a tree to its leaf. */
  readonly steps: number;
  /** Why some rules cannot be put behind a tree without changing what they mean. */
  readonly errors: readonly string[];
}

/** All rules for one key, in the order of the files. */
interface Stop {
  readonly key: string;
  readonly weight: number;
  readonly rules: readonly BaseRule[];
}

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
export function dispatch(rules: readonly BaseRule[], shelf: Shelf, roots: ReadonlyMap<string, TreeChain>): Dispatch {
  const sorted = sortRules(rules);
  const lines: string[] = [];
  const tops: Built[] = [];
  for (const [condition, stops] of [
    ['', sorted.address],
    ['-m addrtype --dst-type LOCAL ', sorted.local],
    ['', sorted.port],
  ] as const) {
    if (stops.length === 0) continue;
    const top = build(carve(stops, isAskable(stops[0]?.key ?? '')), shelf);
    tops.push(top);
    lines.push(`${condition}-j ${top.chain.name}`);
  }
  let height = Math.max(0, ...tops.map(({ chain }) => chain.height));
  for (const { body, calls } of sorted.rest) {
    const callee = calls === undefined ? undefined : roots.get(calls);
    if (calls !== undefined && !callee)
      sorted.errors.push(`a rule leads to ${calls}, which has no root of its own before this one`);
    lines.push(`${body.text}${callee?.name ?? ''}`);
    height = Math.max(height, body.height, callee?.height ?? 0);
  }
  return {
    root: shelf.add('SLUICE-R', lines, height + 1),
    levels: Math.max(0, ...tops.map(({ levels }) => levels)),
    steps: Math.max(0, ...tops.map(({ steps }) => steps)),
    errors: sorted.errors,
  };
}

interface Sorted {
  readonly address: readonly Stop[];
  readonly local: readonly Stop[];
  readonly port: readonly Stop[];
  readonly rest: readonly BaseRule[];
  readonly errors: string[];
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
  else known.push(...before.filter((one) => !known.includes(one)), rule);
}

function toStop([key, rules]: readonly [string, readonly BaseRule[]]): Stop {
  return { key, weight: rules.length, rules };
}

function byKey(a: Stop, b: Stop): number {
  return a.key < b.key ? -1 : 1;
}

interface Built {
  readonly chain: TreeChain;
  readonly levels: number;
  readonly steps: number;
}

function build(carved: Carved<Stop>, shelf: Shelf): Built {
  if (carved.kind === 'leaf') {
    const rules = carved.items.flatMap((stop) => stop.rules);
    return { chain: leafChain(rules, shelf), levels: 1, steps: rules.length };
  }
  const below = carved.ways.map((way) => build(way.below, shelf));
  const rules = carved.ways.map(({ key, length }, at) => `${conditionOf(key, length)}-g ${below[at]?.chain.name}`);
  const height = 1 + Math.max(...below.map(({ chain }) => chain.height));
  return {
    chain: shelf.add('SLUICE-T', rules, height),
    levels: 1 + Math.max(...below.map(({ levels }) => levels)),
    steps: Math.max(...below.map(({ steps }, at) => at + 1 + steps)),
  };
}

interface Leaf {
  readonly rules: readonly BaseRule[];
  readonly chain: TreeChain;
}

/** Leaves by their first rule. Rules of files that did not change are the same objects, so most leaves are made once. */
const leaves = new WeakMap<BaseRule, Leaf>();

function leafChain(rules: readonly BaseRule[], shelf: Shelf): TreeChain {
  const [first] = rules;
  const known = first && leaves.get(first);
  const isSame = known?.rules.length === rules.length && known.rules.every((rule, at) => rule === rules[at]);
  if (known && isSame && shelf.adopt([known.chain])) return known.chain;
  const height = 1 + Math.max(0, ...rules.map(({ body }) => body.height));
  const texts = rules.map(({ body }) => body.text);
  const chain = shelf.add('SLUICE-T', texts, height);
  // Only the first choice of a name depends on nothing but the rules.
  if (first && chain.name === naturalName('SLUICE-T', chain.digest)) leaves.set(first, { rules, chain });
  return chain;
}
