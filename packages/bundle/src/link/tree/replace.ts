import { Layered } from '../layered.ts';
import type { TableProgram } from '../program.ts';
import { digestOf, namesFor, sameLines, stemOf } from './names.ts';

/** What replaces chains of a settled table. */
export interface Replacement {
  /** The new name of each chain that is replaced, by its old one. */
  readonly renamed: ReadonlyMap<string, string>;
  /** Chains that come with them, by their names, with their rules. */
  readonly chains: TableProgram['chains'];
}

/**
 * A settled table in layout `tree` with some of its tagged chains replaced. Every chain that leads to one of them has another content
 * then, so it gets another name, and so on up to the entry chains. Chains that nothing leads to any more are left out.
 *
 * Chains without a tag and jumps stay. What a packet meets on its way is what it met before but for the chains that were replaced.
 * @param isTaken whether a name belongs to another content somewhere else
 */
export function replaceChains(
  table: TableProgram,
  { renamed, chains }: Replacement,
  isTaken: (name: string, rules: readonly string[]) => boolean,
): TableProgram {
  const behind = reached([...renamed.keys()], table.chains);
  const callers = callersOf(table, behind);
  const names = new Map(renamed);
  const changes = new Map<string, readonly string[] | undefined>();
  const order = callersFirst([...renamed.keys()], callers).toReversed();
  for (const name of order) {
    const before = table.chains.get(name);
    if (renamed.has(name) || !before) continue;
    const rules = before.map((rule) => led(rule, names));
    const stem = stemOf(name);
    const fresh =
      stem === undefined
        ? { name, rules }
        : namedAs(stem, name, rules, (one, lines) => isTaken(one, lines) || differs(table, one, lines));
    names.set(name, fresh.name);
    changes.set(name, undefined).set(fresh.name, fresh.rules);
  }
  const whole = Layered.of(table.chains).with(coming(chains, table));
  const stays = reached([...chains.keys()], whole);
  for (const name of unneeded(behind, renamed, callers)) if (!stays.has(name)) changes.set(name, undefined);
  return { chains: whole.with(changes), jumps: table.jumps };
}

/** The chains that come; one that is there with the same rules stays the object that it is. */
function* coming(
  chains: TableProgram['chains'],
  { chains: before }: TableProgram,
): Generator<readonly [string, readonly string[]]> {
  for (const [name, rules] of chains) {
    const old = before.get(name);
    yield [name, old && sameLines(old, rules) ? old : rules];
  }
}

/** The tagged chain that a rule leads to. Found without a pattern: there are as many rules as ways to endpoints. */
function calleeOf(rule: string): string | undefined {
  const at = rule.lastIndexOf(' ') + 1;
  if (!rule.startsWith('SLU', at) || rule.at(-3) !== '.') return undefined;
  const option = rule.slice(at - 4, at);
  return option === ' -j ' || option === ' -g ' ? rule.slice(at) : undefined;
}

/** Tagged chains that some lead to, by whatever way, and these. */
function reached(from: readonly string[], chains: TableProgram['chains']): ReadonlySet<string> {
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
 * By callee, the chains that lead to it. Those of endpoints lead to nothing that has a tag and is none of an endpoint; of the chains of
 * endpoints only some count.
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

/** All chains from which some others are reached, and these: each before those that it leads to. */
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
 * What only led on from chains that were replaced, and these.
 * @param behind the chains that were replaced and all that they led to
 */
function unneeded(
  behind: ReadonlySet<string>,
  renamed: ReadonlyMap<string, string>,
  callers: ReadonlyMap<string, readonly string[]>,
): ReadonlySet<string> {
  const gone = new Set<string>();
  for (let count = -1; count < gone.size; ) {
    count = gone.size;
    for (const name of behind) {
      const isLeft = renamed.has(name) ? renamed.get(name) === name : callers.get(name)?.some((one) => !gone.has(one));
      if (isLeft !== true) gone.add(name);
    }
  }
  return gone;
}

function led(rule: string, names: ReadonlyMap<string, string>): string {
  const callee = calleeOf(rule);
  const fresh = callee === undefined ? undefined : names.get(callee);
  return callee === undefined || fresh === undefined ? rule : `${rule.slice(0, -callee.length)}${fresh}`;
}

/** The rules under the first name that their content asks for and that no other content has. */
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
