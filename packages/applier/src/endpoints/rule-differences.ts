import { compareText, differing, type TableProgram } from '@sluice/netfilter';
import { isTagged } from '../plan/entries.ts';
import { isEndpoint, withoutTag } from './service-rules.ts';

/** A rule, and the name of its chain, without the tags of names. */
export interface PlainRule {
  readonly chain: string;
  readonly body: string;
  /** Whether it is the last rule of its chain. */
  readonly isLast: boolean;
}

/** What only the first and what only the second of two tables contains. */
export interface RemovedAndAdded<T> {
  readonly removed: readonly T[];
  readonly added: readonly T[];
}

/** The names of chains that differ; a chain of both tables is in both lists. */
export function changedChains(from: TableProgram, desired: TableProgram): RemovedAndAdded<string> {
  const changed = differing(from.chains, desired.chains).filter(
    (name) => from.chains.get(name)?.join('\n') !== desired.chains.get(name)?.join('\n'),
  );
  return {
    removed: changed.filter((name) => from.chains.has(name)),
    added: changed.filter((name) => desired.chains.has(name)),
  };
}

/**
 * The rules that only one of two tables has.
 * @param changed `changedChains`
 * @param met chains to leave out: they were compared already
 * @returns undefined if rules of both tables are in another order
 */
export function leftOver(
  from: TableProgram,
  desired: TableProgram,
  changed: RemovedAndAdded<string>,
  met: ReadonlySet<string>,
): RemovedAndAdded<PlainRule> | undefined {
  const rules = (table: TableProgram, names: readonly string[]): readonly PlainRule[] =>
    names.filter((name) => !met.has(name) && !isEndpoint(name)).flatMap((name) => rulesOf(table, name));
  const [before, after] = [rules(from, changed.removed), rules(desired, changed.added)];
  const [removed, added] = [without(before, after), without(after, before)];
  return inOrder(before, new Set(removed)) === inOrder(after, new Set(added)) ? { removed, added } : undefined;
}

const isFork = (rule: string): boolean => / -[jg] SLUICE-[RT]-\S+$/.test(rule);

function rulesOf(table: TableProgram, name: string): readonly PlainRule[] {
  const rules = table.chains.get(name) ?? [];
  return rules
    .map((rule, at) => ({
      chain: plainName(name),
      body: rule.slice(3 + name.length).replace(/(?<= -[jg] )SLU\S+$/, plainName),
      isLast: at === rules.length - 1,
    }))
    .filter((_one, at) => !isFork(rules[at] ?? ''));
}

/** The name of a chain without its tag; all chains of dispatch trees have one name. */
export const plainName = (name: string): string =>
  !isTagged(name) ? name : /^SLUICE-[RT]-/.test(name) ? name.slice(0, 8) : withoutTag(name);

/** Whether a chain belongs to a dispatch tree, where the order of rules does not matter: it follows from the set of all rules. */
export const isDispatch = (plain: string): boolean => plain === 'SLUICE-R' || plain === 'SLUICE-T';

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
  const chains = [...Map.groupBy(kept, ({ chain }) => chain)];
  return chains
    .map(([, own]) => own.map(keyOf).join('\n'))
    .toSorted(compareText)
    .join('\n');
}
