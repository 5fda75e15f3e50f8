import { compareText } from '../problem.ts';
import { differing } from '../layered.ts';
import type { TableProgram } from '../link/program.ts';
import type { Rule } from '../rules/rule.ts';
import { isDispatch, isOfEndpoint, plainName } from './chain-names.ts';
import { calleeOf, readLinked } from './of-rule.ts';

/** A rule with the names of chains without their tags. */
export interface PlainRule {
  readonly chain: string;
  /** Without its chain. */
  readonly body: string;
  /** Whether it is the last rule of its chain. */
  readonly isLast: boolean;
}

/** What only the first and what only the second of two tables contains. */
export interface RemovedAndAdded<T> {
  readonly removed: readonly T[];
  readonly added: readonly T[];
}

export const readPlain = ({ chain, body }: PlainRule): Rule | undefined => readLinked(`-A ${chain}${body}`);

/** The names of chains that differ; a chain of both tables is in both lists. */
export function changedNames(from: TableProgram, to: TableProgram): RemovedAndAdded<string> {
  const changed = differing(from.chains, to.chains).filter(
    (name) => !sameLines(from.chains.get(name), to.chains.get(name)),
  );
  return {
    removed: changed.filter((name) => from.chains.has(name)),
    added: changed.filter((name) => to.chains.has(name)),
  };
}

export const sameJumps = (a: TableProgram, b: TableProgram): boolean => sameLines(a.jumps, b.jumps);

export function sameLines(a: readonly string[] | undefined, b: readonly string[] | undefined): boolean {
  return a === b || (a !== undefined && a.length === b?.length && a.every((line, index) => line === b[index]));
}

export function sameTable(a: TableProgram, b: TableProgram): boolean {
  if (a === b) return true;
  return (
    sameJumps(a, b) && differing(a.chains, b.chains).every((name) => sameLines(a.chains.get(name), b.chains.get(name)))
  );
}

/**
 * The rules that only one of two tables has.
 * @param met chains to leave out: they were compared already
 * @returns undefined if rules of both tables are in another order
 */
export function leftOver(
  from: TableProgram,
  to: TableProgram,
  changed: RemovedAndAdded<string>,
  met: ReadonlySet<string>,
): RemovedAndAdded<PlainRule> | undefined {
  const rules = (table: TableProgram, names: readonly string[]): readonly PlainRule[] =>
    names
      .filter((name) => !met.has(name) && !isOfEndpoint(name))
      .flatMap((name) => plainRules(table, name).filter((rule) => !isFork(rule)));
  const [before, after] = [rules(from, changed.removed), rules(to, changed.added)];
  const [removed, added] = [without(before, after), without(after, before)];
  return inOrder(before, new Set(removed)) === inOrder(after, new Set(added)) ? { removed, added } : undefined;
}

/** The chains with these names and their rules as one text, independent of tags. */
export const plainText = (table: TableProgram, names: readonly string[]): string =>
  names
    .map((name) => [plainName(name), ...plainRules(table, name).map(({ body }) => body)].join('\n'))
    .toSorted(compareText)
    .join('\n');

function plainRules(table: TableProgram, name: string): readonly PlainRule[] {
  const rules = table.chains.get(name) ?? [];
  return rules.map((rule, at) => {
    const callee = calleeOf(rule) ?? '';
    const body = `${rule.slice(3 + name.length, rule.length - callee.length)}${plainName(callee)}`;
    return { chain: plainName(name), body, isLast: at === rules.length - 1 };
  });
}

/** Whether a rule leads to a branch of a dispatch tree. */
const isFork = ({ body }: PlainRule): boolean => isDispatch(calleeOf(body) ?? '');

const keyOf = ({ chain, body }: PlainRule): string => `${chain}${body}`;

function without(rules: readonly PlainRule[], others: readonly PlainRule[]): readonly PlainRule[] {
  const counts = new Map<string, number>();
  for (const rule of others) counts.set(keyOf(rule), (counts.get(keyOf(rule)) ?? 0) + 1);
  return rules.filter((rule) => {
    const left = counts.get(keyOf(rule)) ?? 0;
    counts.set(keyOf(rule), left - 1);
    return left <= 0;
  });
}

/** The rules of each chain whose order matters, without those in `but`. */
function inOrder(rules: readonly PlainRule[], but: ReadonlySet<PlainRule>): string {
  const kept = rules.filter((rule) => !but.has(rule) && !isDispatch(rule.chain));
  return [...Map.groupBy(kept, ({ chain }) => chain).values()]
    .map((own) => own.map(keyOf).join('\n'))
    .toSorted(compareText)
    .join('\n');
}
