import {
  differing,
  type Family,
  Layered,
  switches,
  type TableName,
  type TableProgram,
  treeEntries,
  isTagged,
  treeMarkingChain,
  stemOf,
} from '@sluice/netfilter';
import {
  type OwnedNames,
  familyNames,
  type NodeState,
  tableOf,
  joinNames,
  type Observed,
  rootsOf,
  isTree,
} from '../../ports/node-state.ts';

/** To which of two programs, side by side in the kernel, the entry chains of a table lead. */
export type Lead =
  /** To the new one if the switch's set has the packet's source, else to the old one. */
  | 'switch'
  /** In filter: to the new one, then to the old one; in nat: to the new one. */
  | 'both'
  /** To the new one. */
  | 'new';

/**
 * A table that holds two programs of layout `tree` side by side. They share each chain of the same name, because a tagged name stands for
 * one content. Chains of the old program in another layout stay, and so do the jumps to them, after ours.
 *
 * Base chains are met by the packets of both programs, so each one calls the old rules, then the new ones. The exception is the chain
 * that marks: it stays as it was until the new program is the default, because a packet marked by one program may be masqueraded by the
 * other.
 */
export function sideBySide(table: TableName, old: TableProgram, next: TableProgram, lead: Lead): TableProgram {
  const chains = new Map<string, readonly string[]>();
  for (const name of differing(old.chains, next.chains)) {
    const [before, rules] = [old.chains.get(name), next.chains.get(name)];
    if (rules) chains.set(name, rules);
    if (isTagged(name) || treeEntries[table].includes(name) || !before || !rules || sameRules(before, rules)) continue;
    if (name === treeMarkingChain) chains.set(name, lead === 'switch' ? before : rules);
    else for (const [part, lines] of inTurn(name, before, rules)) chains.set(part, lines);
  }
  for (const [entry, rules] of entryRules(table, old, next, lead)) chains.set(entry, rules);
  const jumps = [...next.jumps, ...old.jumps.filter((jump) => !next.jumps.includes(jump))];
  return { chains: Layered.of(old.chains).with(chains), jumps };
}

/** Whether a base chain has different rules in the two programs: it then narrows in a step of its own. */
export function differInBaseChains(table: TableName, old: TableProgram, next: TableProgram): boolean {
  return differing(old.chains, next.chains).some((name) => {
    if (isTagged(name) || treeEntries[table].includes(name)) return false;
    return !sameRules(old.chains.get(name) ?? [], next.chains.get(name) ?? []);
  });
}

/** A chain that calls two others, one after the other. A `RETURN` in the first one leads to the second, not out. */
function inTurn(
  name: string,
  first: readonly string[],
  second: readonly string[],
): readonly (readonly [string, readonly string[]])[] {
  const part = (suffix: string, rules: readonly string[]): readonly [string, readonly string[]] => [
    `${name}.${suffix}`,
    rules.map((rule) => `-A ${name}.${suffix}${rule.slice(3 + name.length)}`),
  ];
  return [part('old', first), part('new', second), [name, [`-A ${name} -j ${name}.old`, `-A ${name} -j ${name}.new`]]];
}

function* entryRules(
  table: TableName,
  old: TableProgram,
  next: TableProgram,
  lead: Lead,
): Generator<readonly [string, readonly string[]]> {
  const [before, after] = [rootsOf(table, old), rootsOf(table, next)];
  for (const entry of treeEntries[table]) {
    const [a, b] = [before.get(entry), after.get(entry)];
    const leadTo = (root: string): readonly string[] => [`-A ${entry} -g ${root}`];
    if (b === undefined) {
      if (a !== undefined) yield [entry, leadTo(a)];
    } else if (a === b || lead === 'new') yield [entry, leadTo(b)];
    else if (lead === 'switch') yield [entry, onProbation(table, entry, a, b)];
    else if (table === 'nat' || a === undefined) yield [entry, leadTo(b)];
    else yield [entry, [`-A ${entry} -j ${b}`, ...leadTo(a)]];
  }
}

/**
 * A packet traverses the new program when the table's set contains its source. The set's element has a time-out during probation, none
 * (pinned) during the confirmation, and is removed by a rollback.
 *
 * nat chooses one of the two. filter jumps to the new one and then to the old one, because a packet may find the switch on in one table
 * and off in the other: a packet that either filter rejects or drops still has a Service's own address, so the nat of that program
 * has not translated it, and a translated packet matches neither.
 *
 * No packet meets the last rule: it is the new default once those before it are deleted, which is the cheapest change that a table can have.
 */
function onProbation(table: TableName, entry: string, old: string | undefined, next: string): readonly string[] {
  const go = table === 'nat' ? '-g' : '-j';
  const tried = `-A ${entry} -m set --match-set ${switches[table]} src ${go} ${next}`;
  return old === undefined ? [tried] : [tried, `-A ${entry} -g ${old}`, `-A ${entry} -g ${next}`];
}

function sameRules(a: readonly string[], b: readonly string[]): boolean {
  return a === b || (a.length === b.length && a.every((rule, index) => rule === b[index]));
}

/** The names of the chains that exist only beside two programs: the old and the new part of each base chain. */
export function baseChainNames(old: Pick<NodeState, 'families'>, next: Pick<NodeState, 'families'>): OwnedNames {
  const names: { [F in Family]?: Record<TableName, readonly string[]> } = {};
  for (const family of familyNames) {
    const parts = (table: TableName): readonly string[] => {
      const before = tableOf(old, family, table).chains;
      const baseChains = [...tableOf(next, family, table).chains.keys()].filter(
        (name) => !isTagged(name) && before.has(name),
      );
      return baseChains.flatMap((name) => [`${name}.old`, `${name}.new`]);
    };
    names[family] = { filter: parts('filter'), nat: parts('nat') };
  }
  return names;
}

/**
 * Chains that are ours by the form of their names. For when a generation that made some cannot be read any more: those that the desired
 * state lacks may be removed. Chains that foreign rules lead to stay (`adaptDesired`), as do all chains of the other layouts, which have
 * the same names as kube-proxy's.
 * @param state the state before or after the change
 */
export function leakedChains(observed: Observed, state: Pick<NodeState, 'families'>): OwnedNames {
  const found: { [F in Family]?: Record<TableName, readonly string[]> } = {};
  for (const family of familyNames) {
    const tables = observed[family];
    if (!tables) continue;
    const names = (table: TableName): readonly string[] =>
      [...tables[table].chains.keys()].filter((name) => stemOf(name) !== undefined);
    found[family] = { filter: names('filter'), nat: names('nat') };
  }
  return isTree(state) ? joinNames(found, baseChainNames(state, state)) : found;
}
