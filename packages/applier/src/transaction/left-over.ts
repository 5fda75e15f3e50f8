import { compareText, differing, type TableProgram } from '@sluice/bundle';
import { isTagged } from './entries.ts';
import { isEndpoint, withoutTag } from './service.ts';

/** A rule that only one of two tables has, with the chain that it stands in, both without what contents decide. */
export interface Rule {
  readonly chain: string;
  readonly body: string;
  /** Whether no rule stands behind it. */
  readonly isLast: boolean;
}

/** What only the first and what only the second of two tables has. */
export interface Apart<T> {
  readonly gone: readonly T[];
  readonly come: readonly T[];
}

/** The chains that differ; one that both have is in both lists. */
export function changedChains(from: TableProgram, desired: TableProgram): Apart<string> {
  const changed = differing(from.chains, desired.chains).filter(
    (name) => from.chains.get(name)?.join('\n') !== desired.chains.get(name)?.join('\n'),
  );
  return {
    gone: changed.filter((name) => from.chains.has(name)),
    come: changed.filter((name) => desired.chains.has(name)),
  };
}

/**
 * What is left of two tables when rules that both have are taken away.
 * @param changed `changedChains`
 * @param met chains that are understood already
 * @returns undefined when rules that both have stand in another order
 */
export function leftOver(
  from: TableProgram,
  desired: TableProgram,
  changed: Apart<string>,
  met: ReadonlySet<string>,
): Apart<Rule> | undefined {
  const rules = (table: TableProgram, names: readonly string[]): readonly Rule[] =>
    names.filter((name) => !met.has(name) && !isEndpoint(name)).flatMap((name) => rulesOf(table, name));
  const [before, after] = [rules(from, changed.gone), rules(desired, changed.come)];
  const [gone, come] = [without(before, after), without(after, before)];
  return inOrder(before, new Set(gone)) === inOrder(after, new Set(come)) ? { gone, come } : undefined;
}

const isFork = (rule: string): boolean => / -[jg] SLUICE-[RT]-\S+$/.test(rule);

function rulesOf(table: TableProgram, name: string): readonly Rule[] {
  const rules = table.chains.get(name) ?? [];
  return rules
    .map((rule, at) => ({
      chain: plainName(name),
      body: rule.slice(3 + name.length).replace(/(?<= -[jg] )SLU\S+$/, plainName),
      isLast: at === rules.length - 1,
    }))
    .filter((_one, at) => !isFork(rules[at] ?? ''));
}

/** The name of a chain without what contents decide. */
export const plainName = (name: string): string =>
  !isTagged(name) ? name : /^SLUICE-[RT]-/.test(name) ? name.slice(0, 8) : withoutTag(name);

/** In dispatch trees of layout `tree` the places of rules follow from all of them, as do the forks that lead there. */
export const isDispatch = (plain: string): boolean => plain === 'SLUICE-R' || plain === 'SLUICE-T';

const keyOf = ({ chain, body }: Rule): string => `${chain}${body}`;

function without(rules: readonly Rule[], others: readonly Rule[]): readonly Rule[] {
  const counts = new Map<string, number>();
  for (const rule of others) counts.set(keyOf(rule), (counts.get(keyOf(rule)) ?? 0) + 1);
  return rules.filter((rule) => {
    const left = counts.get(keyOf(rule)) ?? 0;
    counts.set(keyOf(rule), left - 1);
    return left <= 0;
  });
}

/** The rules of each chain whose order counts, without some. */
function inOrder(rules: readonly Rule[], but: ReadonlySet<Rule>): string {
  const kept = rules.filter((rule) => !but.has(rule) && !isDispatch(rule.chain));
  const chains = [...Map.groupBy(kept, ({ chain }) => chain)];
  return chains
    .map(([, own]) => own.map(keyOf).join('\n'))
    .toSorted(compareText)
    .join('\n');
}
