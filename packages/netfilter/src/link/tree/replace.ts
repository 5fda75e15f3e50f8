import { Layered } from '../../layered.ts';
import type { TableProgram } from '../program.ts';
import { digestOf, namesFor, sameLines, stemOf } from './names.ts';

/** A replacement of chains in a table outside of probation. */
interface Replacement {
  /** Old name → new name of each replaced chain. */
  readonly renamed: ReadonlyMap<string, string>;
  /** The added chains by name, with their rules. */
  readonly chains: TableProgram['chains'];
}

/**
 * Replaces some tagged chains of a table in layout `tree`. Every chain that jumps to one of them gets other rules and therefore another
 * name, and so on up to the entry chains. Chains that are no longer referenced are left out.
 *
 * Chains without a tag and jumps stay. Packets traverse the same rules as before, except in the replaced chains.
 * @param isTaken whether a name belongs to a chain with other rules elsewhere
 */
export function replaceChains(
  table: TableProgram,
  { renamed, chains }: Replacement,
  isTaken: (name: string, rules: readonly string[]) => boolean,
): TableProgram {
  const reachable = reachableFrom([...renamed.keys()], table.chains);
  const callers = callersOf(table, reachable);
  const names = new Map(renamed);
  const changes = new Map<string, readonly string[] | undefined>();
  const order = callersFirst([...renamed.keys()], callers).toReversed();
  for (const name of order) {
    const before = table.chains.get(name);
    if (renamed.has(name) || !before) continue;
    const rules = before.map((rule) => retargeted(rule, names));
    const stem = stemOf(name);
    const replacement =
      stem === undefined
        ? { name, rules }
        : namedAs(stem, name, rules, (one, lines) => isTaken(one, lines) || differs(table, one, lines));
    names.set(name, replacement.name);
    changes.set(name, undefined).set(replacement.name, replacement.rules);
  }
  const whole = Layered.of(table.chains).with(addedChains(chains, table));
  const stays = reachableFrom([...chains.keys()], whole);
  for (const name of unreachable(reachable, renamed, callers)) if (!stays.has(name)) changes.set(name, undefined);
  return { chains: whole.with(changes), jumps: table.jumps };
}

/** The added chains; an existing chain with equal rules keeps its identity. */
function* addedChains(
  chains: TableProgram['chains'],
  { chains: before }: TableProgram,
): Generator<readonly [string, readonly string[]]> {
  for (const [name, rules] of chains) {
    const old = before.get(name);
    yield [name, old && sameLines(old, rules) ? old : rules];
  }
}

/** The tagged chain that a rule jumps to. Without a regular expression, for speed: there is a rule per endpoint. */
function calleeOf(rule: string): string | undefined {
  const at = rule.lastIndexOf(' ') + 1;
  if (!rule.startsWith('SLU', at) || rule.at(-3) !== '.') return undefined;
  const option = rule.slice(at - 4, at);
  return option === ' -j ' || option === ' -g ' ? rule.slice(at) : undefined;
}

/** The given chains and all tagged chains that are reachable from them. */
function reachableFrom(from: readonly string[], chains: TableProgram['chains']): ReadonlySet<string> {
  const found = new Set<string>(from);
  for (const name of found) {
    for (const rule of chains.get(name) ?? []) {
      const callee = calleeOf(rule);
      if (callee !== undefined) found.add(callee);
    }
  }
  return found;
}

const isOfEndpoint = (name: string): boolean => name.startsWith('SLU-SEP-') || name.startsWith('SLU-GRP-');

/**
 * Callee → callers. Endpoint chains have no callees except other endpoint chains, and are callees only if they are in `some`.
 */
function callersOf({ chains }: TableProgram, some: ReadonlySet<string>): ReadonlyMap<string, readonly string[]> {
  const callers = new Map<string, string[]>();
  chains.forEach((rules, name) => {
    if (name.startsWith('SLU-SEP-')) return;
    for (const rule of rules) {
      const callee = calleeOf(rule);
      if (callee === undefined || (isOfEndpoint(callee) && !some.has(callee))) continue;
      const known = callers.get(callee);
      if (!known) callers.set(callee, [name]);
      else if (known.at(-1) !== name) known.push(name);
    }
  });
  return callers;
}

/** The given chains and all their direct and indirect callers: each before those that it jumps to. */
function callersFirst(from: readonly string[], callers: ReadonlyMap<string, readonly string[]>): readonly string[] {
  const order = new Set<string>();
  const visit = (name: string): void => {
    if (order.has(name)) return;
    for (const caller of callers.get(name) ?? []) visit(caller);
    order.add(name);
  };
  for (const name of from) visit(name);
  return [...order];
}

/**
 * The replaced chains and those that were reachable only from them.
 * @param reachable the replaced chains and all chains reachable from them
 */
function unreachable(
  reachable: ReadonlySet<string>,
  renamed: ReadonlyMap<string, string>,
  callers: ReadonlyMap<string, readonly string[]>,
): ReadonlySet<string> {
  const unused = new Set<string>();
  for (let count = -1; count < unused.size; ) {
    count = unused.size;
    for (const name of reachable) {
      const isLeft = renamed.has(name)
        ? renamed.get(name) === name
        : callers.get(name)?.some((one) => !unused.has(one));
      if (isLeft !== true) unused.add(name);
    }
  }
  return unused;
}

function retargeted(rule: string, names: ReadonlyMap<string, string>): string {
  const callee = calleeOf(rule);
  const replacement = callee === undefined ? undefined : names.get(callee);
  return callee === undefined || replacement === undefined ? rule : `${rule.slice(0, -callee.length)}${replacement}`;
}

/** Returns the rules under the first name of `namesFor` that is free. */
function namedAs(
  stem: string,
  old: string,
  rules: readonly string[],
  isTaken: (name: string, rules: readonly string[]) => boolean,
): { readonly name: string; readonly rules: readonly string[] } {
  const bodies = rules.map((rule) => rule.slice(4 + old.length));
  const digest = digestOf(stem, bodies.map((body) => `${body}\n`).join(''));
  for (const name of namesFor(stem, digest)) {
    const lines = bodies.map((body) => `-A ${name} ${body}`);
    if (!isTaken(name, lines)) return { name, rules: lines };
  }
  throw new RangeError(`${stem} has no tag left`);
}

function differs({ chains }: TableProgram, name: string, rules: readonly string[]): boolean {
  const held = chains.get(name);
  return held !== undefined && (held.length !== rules.length || held.some((rule, at) => rule !== rules[at]));
}
