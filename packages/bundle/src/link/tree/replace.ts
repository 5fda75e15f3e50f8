import type { TableProgram } from '../program.ts';
import { digestOf, namesFor, stemOf } from './names.ts';

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
  const callers = callersOf(table);
  const names = new Map(renamed);
  const result = new Map([...table.chains, ...chains]);
  for (const name of callersFirst([...renamed.keys()], callers).toReversed()) {
    const before = table.chains.get(name);
    if (renamed.has(name) || !before) continue;
    const rules = before.map((rule) => led(rule, names));
    const stem = stemOf(name);
    if (stem === undefined) {
      result.set(name, rules);
      continue;
    }
    const fresh = namedAs(stem, name, rules, (one, lines) => isTaken(one, lines) || differs(table, one, lines));
    names.set(name, fresh.name);
    result.set(fresh.name, fresh.rules);
  }
  return {
    chains: swept(result, table, new Set([...names.keys()].filter((name) => names.get(name) !== name))),
    jumps: table.jumps,
  };
}

const leads = / -[jg] (SLU\S+)$/;

function callersOf({ chains }: TableProgram): ReadonlyMap<string, readonly string[]> {
  const callers = new Map<string, string[]>();
  for (const [name, rules] of chains) {
    for (const rule of rules) {
      const callee = leads.exec(rule)?.[1];
      if (callee === undefined) continue;
      const known = callers.get(callee);
      if (!known) callers.set(callee, [name]);
      else if (known.at(-1) !== name) known.push(name);
    }
  }
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

function led(rule: string, names: ReadonlyMap<string, string>): string {
  const callee = leads.exec(rule)?.[1];
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

/** Without the chains that were replaced, and without those that only they led to. */
function swept(
  chains: ReadonlyMap<string, readonly string[]>,
  { chains: before }: TableProgram,
  gone: ReadonlySet<string>,
): TableProgram['chains'] {
  const left = new Map([...chains].filter(([name]) => !gone.has(name)));
  const suspects = new Set<string>();
  const suspect = (name: string): void => {
    for (const rule of before.get(name) ?? []) {
      const callee = leads.exec(rule)?.[1];
      if (callee === undefined || suspects.has(callee) || stemOf(callee) === undefined) continue;
      suspects.add(callee);
      suspect(callee);
    }
  };
  for (const name of gone) suspect(name);
  const needed = new Set<string>();
  const need = (name: string): void => {
    if (needed.has(name)) return;
    needed.add(name);
    for (const rule of left.get(name) ?? []) need(leads.exec(rule)?.[1] ?? name);
  };
  for (const [name, rules] of left) {
    if (suspects.has(name)) continue;
    for (const rule of rules) {
      const callee = leads.exec(rule)?.[1];
      if (callee !== undefined && suspects.has(callee)) need(callee);
    }
  }
  return new Map([...left].filter(([name]) => !suspects.has(name) || needed.has(name)));
}
