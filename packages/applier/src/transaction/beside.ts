import { differing, type Family, Layered, switches, type TableName, type TableProgram } from '@sluice/bundle';
import { type ChainNames, familyNames, type NodeState, tableOf } from '../rollout/state.ts';
import { entryNames, isTagged, rootsOf } from './entries.ts';

/** How the entry chains of a table lead to two programs that the kernel holds side by side. */
export type Lead =
  /** To the new one as far as the set of the switch holds a packet's source, else to the old one. */
  | 'switch'
  /** Of filter: to the new one, then to the old one; of nat: to the new one. */
  | 'both'
  /** To the new one. */
  | 'new';

/** The chain that every Service's chains mark packets in: both programs call the one that is there. */
const markChain = 'SLUICE-MARK-MASQ';

/**
 * A table that holds two programs in layout `tree` side by side. They share each chain that has the same name, for a name with a
 * tag says its content. Chains of the old program that are not in this layout stay with the jumps to them, behind ours.
 *
 * Fixtures are what a packet meets whatever way it went, so each one does for both programs: first what the old one says, then
 * what the new one does. Marking is the exception: it stays as it was until the new program is the default, for packets that were
 * marked in one way are masqueraded in either.
 */
export function beside(table: TableName, old: TableProgram, fresh: TableProgram, lead: Lead): TableProgram {
  const chains = new Map<string, readonly string[]>();
  for (const name of differing(old.chains, fresh.chains)) {
    const [before, rules] = [old.chains.get(name), fresh.chains.get(name)];
    if (rules) chains.set(name, rules);
    if (isTagged(name) || entryNames[table].includes(name) || !before || !rules || sameRules(before, rules)) continue;
    if (name === markChain) chains.set(name, lead === 'switch' ? before : rules);
    else for (const [part, lines] of inTurn(name, before, rules)) chains.set(part, lines);
  }
  for (const [entry, rules] of entryRules(table, old, fresh, lead)) chains.set(entry, rules);
  const jumps = [...fresh.jumps, ...old.jumps.filter((jump) => !fresh.jumps.includes(jump))];
  return { chains: Layered.of(old.chains).with(chains), jumps };
}

/** Whether the two have a fixture with different rules: it narrows in a step of its own. */
export function differInBaseChains(table: TableName, old: TableProgram, fresh: TableProgram): boolean {
  return differing(old.chains, fresh.chains).some((name) => {
    if (isTagged(name) || entryNames[table].includes(name)) return false;
    return !sameRules(old.chains.get(name) ?? [], fresh.chains.get(name) ?? []);
  });
}

/** A chain that asks two others in turn. A `RETURN` in the first one leads to the second, not out. */
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
  fresh: TableProgram,
  lead: Lead,
): Generator<readonly [string, readonly string[]]> {
  const [before, after] = [rootsOf(table, old), rootsOf(table, fresh)];
  for (const entry of entryNames[table]) {
    const [a, b] = [before.get(entry), after.get(entry)];
    const settled = (root: string): readonly string[] => [`-A ${entry} -g ${root}`];
    if (b === undefined) {
      if (a !== undefined) yield [entry, settled(a)];
    } else if (a === b || lead === 'new') yield [entry, settled(b)];
    else if (lead === 'switch') yield [entry, onProbation(table, entry, a, b)];
    else if (table === 'nat' || a === undefined) yield [entry, settled(b)];
    else yield [entry, [`-A ${entry} -j ${b}`, ...settled(a)]];
  }
}

/** filter asks both, for a packet may meet the switch on in one table and off in the other. */
function onProbation(table: TableName, entry: string, old: string | undefined, fresh: string): readonly string[] {
  const go = table === 'nat' ? '-g' : '-j';
  const tried = `-A ${entry} -m set --match-set ${switches[table]} src ${go} ${fresh}`;
  return old === undefined ? [tried] : [tried, `-A ${entry} -g ${old}`];
}

function sameRules(a: readonly string[], b: readonly string[]): boolean {
  return a === b || (a.length === b.length && a.every((rule, index) => rule === b[index]));
}

/** The names of chains that stand only while two programs do: the parts of fixtures that differ. */
export function baseChainParts(old: Pick<NodeState, 'families'>, fresh: Pick<NodeState, 'families'>): ChainNames {
  const names: { [F in Family]?: Record<TableName, readonly string[]> } = {};
  for (const family of familyNames) {
    const parts = (table: TableName): readonly string[] => {
      const before = tableOf(old, family, table).chains;
      const baseChains = [...tableOf(fresh, family, table).chains.keys()].filter(
        (name) => !isTagged(name) && before.has(name),
      );
      return baseChains.flatMap((name) => [`${name}.old`, `${name}.new`]);
    };
    names[family] = { filter: parts('filter'), nat: parts('nat') };
  }
  return names;
}
