import type { Problem } from '../../problem.ts';
import type { HostValues, ResolvedSection } from '../../resolve.ts';
import type { Family, TableName } from '../../rulefile.ts';
import { refusal } from '../check.ts';
import { type ResolvedRules, tableNames } from '../program.ts';
import { type Dispatch, dispatch } from './dispatch.ts';
import { entryChains, fixtureChains, fixtureName, fixturesOf, treeJumps } from './fixtures.ts';
import { limitProblems } from './limits.ts';
import { TreeMemory } from './memory.ts';
import { NamesExhausted, Shelf } from './names.ts';
import type { TakenNames, TreeProgram, TreeTable } from './program.ts';
import { type BaseRule, linkUnits, type Unit, type Units, type UnitScope } from './unit.ts';

export interface TreeOptions {
  readonly family: Family;
  /** What the machine knows, for `${host.*}`. */
  readonly host?: HostValues;
  /** What the kernel holds, as `readBack` tells it: a name that stands there for another content is not used. Must not change. */
  readonly taken?: TakenNames;
  /** Provide KUBE-MARK-MASQ and KUBE-POSTROUTING with kube-proxy's meaning, for CNI plugins on a node where nobody else does. */
  readonly provideKubeChains?: boolean;
}

/** A tree program, and what is wrong with it. Only a program without problems may reach a kernel. */
export interface LinkedTree {
  readonly program: TreeProgram;
  /** `RULE_REFUSED` in the order of the files, then `PROGRAM_LIMIT`. */
  readonly problems: readonly Problem[];
}

/** One file of a family as `linkTree` takes it, from rules that were already put together. */
export function sectionsOf(rules: ResolvedRules): readonly (readonly ResolvedSection[])[] {
  return [tableNames.map((table) => ({ table, ...rules[table] }))];
}

/**
 * Links a node's rules of one family in layout `tree`: the chains that kube-proxy would have written, under names of our own
 * that say their content, and every chain that leads to Services as a tree. For each packet it decides what `linkFlat` does,
 * and each endpoint of a Service has the same share.
 *
 * It depends on the files and options alone. Two programs share every chain whose content they share, under one name. With
 * more than 32 endpoints a Service's are led to in groups. Rules of endpoints carry no comment: they are most of a program.
 *
 * @param files the resolved sections of each file in the order of loading (`resolveSections`)
 * @param memory of earlier calls; a file whose sections are the same object costs a look-up
 */
export function linkTree(
  files: readonly (readonly ResolvedSection[])[],
  options: TreeOptions,
  memory: TreeMemory = new TreeMemory(),
): LinkedTree {
  const scope: UnitScope = { family: options.family, host: options.host ?? {} };
  const shelves = { filter: new Shelf(options.taken?.filter), nat: new Shelf(options.taken?.nat) };
  const all = files.map((file) => place(file, scope, shelves, memory));
  const problems = all.flatMap((units) => tableNames.flatMap((table) => units[table].problems));
  const link = (table: TableName): TreeTable => {
    const units = all.map((one) => one[table]);
    problems.push(...declarationProblems(table, options.family, units));
    return linkTable(table, units, shelves[table], options, problems);
  };
  const program = { filter: link('filter'), nat: link('nat') };
  return { program, problems };
}

/** Puts the chains of a file on the shelves. Where one of their names is taken, the file is linked again. */
function place(
  file: readonly ResolvedSection[],
  scope: UnitScope,
  shelves: Readonly<Record<TableName, Shelf>>,
  memory: TreeMemory,
): Units {
  const units = memory.units(file, scope);
  const fits = tableNames.every((table) => shelves[table].adopt(units[table].chains));
  return fits ? units : linkUnits(file, scope, shelves);
}

/** Base chains must be declared where rules name them, and only once. */
function declarationProblems(table: TableName, family: Family, units: readonly Unit[]): readonly Problem[] {
  const declared = new Set<string>();
  const problems: Problem[] = [];
  const refuse = (chain: string, why: string): void => {
    problems.push(refusal(`Cannot link chain ${chain} of ${family} ${table}: ${why}`));
  };
  for (const unit of units) {
    for (const chain of unit.bases) {
      if (!isBase(table, chain)) continue;
      if (declared.has(chain)) refuse(chain, 'it is declared twice');
      else declared.add(chain);
    }
  }
  const used = new Set(units.flatMap(({ named }) => named));
  for (const chain of used)
    if (!declared.has(chain)) refuse(chain, 'a rule names it, and it is not declared in this table');
  return problems;
}

function linkTable(
  table: TableName,
  units: readonly Unit[],
  shelf: Shelf,
  { family, provideKubeChains = false }: TreeOptions,
  problems: Problem[],
): TreeTable {
  const rules = new Map<string, BaseRule[]>();
  for (const chain of units.flatMap(({ bases }) => bases.filter((name) => isBase(table, name)))) rules.set(chain, []);
  for (const { base } of units) for (const rule of base) rules.get(rule.chain)?.push(rule);
  const entries = new Map<string, string>();
  try {
    const dispatched = dispatchAll(table, rules, shelf);
    for (const base of entryChains[table]) entries.set(fixtureName(base), dispatched.get(base)?.root.name ?? '');
    problems.push(...limitProblems(table, family, dispatched));
  } catch (error) {
    if (!(error instanceof NamesExhausted)) throw error;
    problems.push(refusal(`Cannot link ${family} ${table}: ${error.message}`));
  }
  const bodies = new Map([...rules].map(([chain, list]) => [chain, list.map(({ body }) => body.text)] as const));
  const fixtures = fixturesOf(table, bodies, provideKubeChains);
  return { chains: shelf.chains, entries, fixtures, jumps: treeJumps(table, fixtures) };
}

const isBase = (table: TableName, name: string): boolean =>
  dispatchOrder[table].includes(name) || isFixture(table, name);
const isFixture = (table: TableName, name: string): boolean =>
  (fixtureChains[table] as readonly string[]).includes(name);

/** Callees first: node ports are reached from the tail of Services. */
const dispatchOrder: Readonly<Record<TableName, readonly string[]>> = {
  filter: entryChains.filter,
  nat: ['KUBE-NODEPORTS', ...entryChains.nat],
};

function dispatchAll(
  table: TableName,
  rules: ReadonlyMap<string, readonly BaseRule[]>,
  shelf: Shelf,
): ReadonlyMap<string, Dispatch> {
  const done = new Map<string, Dispatch>();
  for (const base of dispatchOrder[table]) {
    const roots = new Map([...done].map(([name, { root }]) => [name, root] as const));
    done.set(base, dispatch(rules.get(base) ?? [], shelf, roots));
  }
  return done;
}
