import { addAll } from '../../add-all.ts';
import type { Problem } from '../../problem.ts';
import type { HostValues } from '../../rules/host-values.ts';
import type { ResolvedSection } from '../section.ts';
import type { Family, TableName } from '../../family.ts';
import { unlinkable } from '../check.ts';
import { type FamilyProgram, type ResolvedRules, tableNames } from '../program.ts';
import { type Dispatch, dispatch } from './dispatch.ts';
import { entryChains, baseChainNames, baseChainName, baseChainsOf, treeJumps } from './base-chains.ts';
import { canMarkLate } from './in-place.ts';
import { limitProblems } from './limits.ts';
import { TreeMemory } from './memory.ts';
import { NamesExhausted, ChainNamer } from './names.ts';
import type { TreeChain, TreeProgram, TreeTable, LinkedRule, TableUnit, FileUnits } from './program.ts';
import { linkUnits, type LinkScope } from './unit.ts';

export interface TreeOptions {
  readonly family: Family;
  /** The machine's facts, for `${host.*}`. */
  readonly host?: HostValues;
  /** The program in the kernel: a chain name that has other rules there is not used. Must not change. */
  readonly taken?: FamilyProgram;
  /** Provide KUBE-MARK-MASQ and KUBE-POSTROUTING with kube-proxy's meaning, for CNI plugins on a node without kube-proxy. */
  readonly provideKubeChains?: boolean;
  /**
   * Whether the kernel has `-m bpf` (`xt_bpf`), so that endpoints need no chains of their own (in-place.ts); true by default. Without it
   * each endpoint has a chain, as in layout `flat`.
   */
  readonly knowsBpf?: boolean;
}

/** A tree program and its problems. Only a program without problems may be loaded. */
interface LinkedTree {
  readonly program: TreeProgram;
  /** `RULE_REFUSED` in the order of the files, then `PROGRAM_LIMIT`. */
  readonly problems: readonly Problem[];
}

/** Merged rules of one family, in the form of one file for `linkTree`. */
export function sectionsOf(rules: ResolvedRules): readonly (readonly ResolvedSection[])[] {
  return [tableNames.map((table) => ({ table, ...rules[table] }))];
}

/**
 * Links a node's rules of one family in layout `tree`: kube-proxy's chains under names with a digest of their rules, and every dispatch
 * chain as a tree. Each packet is treated as by the program of `linkFlat`, and each endpoint of a Service has the same share.
 *
 * The program depends on the files and options alone. Two programs share each chain of equal rules under one name. A Service with more
 * than 32 endpoints has them in groups. Rules of endpoints have no comment: they are most of a program.
 *
 * @param files the resolved sections of each file in the order of loading (`resolveSections`)
 * @param memory cache of earlier calls, by the identity of a file's sections
 */
export function linkTree(
  files: readonly (readonly ResolvedSection[])[],
  options: TreeOptions,
  memory: TreeMemory = new TreeMemory(),
): LinkedTree {
  const { tables, problems } = linkParts(files, options, memory);
  return { program: { filter: tables.filter.program, nat: tables.nat.program }, problems };
}

/** A linked table with its parts. */
interface TableParts {
  readonly program: TreeTable;
  /** By base chain. */
  readonly dispatched: ReadonlyMap<string, Dispatch>;
}

/** A linked family with its parts. */
export interface LinkedParts {
  /** Of each file. */
  readonly units: readonly FileUnits[];
  readonly tables: Readonly<Record<TableName, TableParts>>;
  readonly problems: readonly Problem[];
  /** `LinkScope.inPlace` */
  readonly inPlace: boolean;
}

/** `linkTree`, with the parts that `relink` needs. */
export function linkParts(
  files: readonly (readonly ResolvedSection[])[],
  options: TreeOptions,
  memory: TreeMemory,
): LinkedParts {
  const knowsBpf = options.knowsBpf ?? true;
  // Assume the last result, so that files are seldom linked twice.
  const first = knowsBpf && memory.inPlace;
  const parts = linkAll(files, options, memory, first);
  memory.inPlace = canMarkLate(parts.units);
  const inPlace = knowsBpf && memory.inPlace;
  return inPlace === first ? parts : linkAll(files, options, memory, inPlace);
}

function linkAll(
  files: readonly (readonly ResolvedSection[])[],
  options: TreeOptions,
  memory: TreeMemory,
  inPlace: boolean,
): LinkedParts {
  const scope: LinkScope = { family: options.family, host: options.host ?? {}, inPlace };
  const namers = namersOf(options);
  const units = files.map((file) => placeUnits(file, scope, namers, memory));
  const problems = units.flatMap((one) => tableNames.flatMap((table) => one[table].problems));
  const link = (table: TableName): TableParts => {
    const ofTable = units.map((one) => one[table]);
    addAll(problems, declarationProblems(table, options.family, ofTable));
    return linkTable(table, ofTable, namers[table], { ...options, inPlace }, problems);
  };
  const tables = { filter: link('filter'), nat: link('nat') };
  return { units, tables, problems, inPlace };
}

/** Gives chains their names, by table. */
export const namersOf = ({ taken }: TreeOptions): Readonly<Record<TableName, ChainNamer>> => ({
  filter: new ChainNamer(taken?.filter.chains),
  nat: new ChainNamer(taken?.nat.chains),
});

/** Adds the chains of a file to the namers. Where one of their names is taken, the file is linked again. */
export function placeUnits(
  file: readonly ResolvedSection[],
  scope: LinkScope,
  namers: Readonly<Record<TableName, ChainNamer>>,
  memory: TreeMemory,
): FileUnits {
  const units = memory.units(file, scope);
  const fits = tableNames.every((table) => namers[table].adopt(units[table].chains));
  return fits ? units : linkUnits(file, scope, namers);
}

/** Base chains must be declared where rules name them, and only once. */
export function declarationProblems(table: TableName, family: Family, units: readonly TableUnit[]): readonly Problem[] {
  const declared = new Set<string>();
  const problems: Problem[] = [];
  const refuse = (chain: string, why: string): void => {
    problems.push(unlinkable(`Cannot link chain ${chain} of ${family} ${table}: ${why}`));
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
    if (!declared.has(chain)) refuse(chain, 'a rule refers to it, but this table does not declare it');
  return problems;
}

function linkTable(
  table: TableName,
  units: readonly TableUnit[],
  namer: ChainNamer,
  { family, provideKubeChains = false, inPlace }: TreeOptions & Pick<LinkScope, 'inPlace'>,
  problems: Problem[],
): TableParts {
  const rules = rulesOfBases(table, units);
  const entries = new Map<string, string>();
  let dispatched: TableParts['dispatched'] = new Map();
  try {
    dispatched = dispatchAll(table, (base, roots) => dispatch(rules.get(base) ?? [], namer, roots));
    for (const base of entryChains[table]) entries.set(baseChainName(base), dispatched.get(base)?.root.name ?? '');
    addAll(problems, limitProblems(table, family, dispatched));
  } catch (error) {
    if (!(error instanceof NamesExhausted)) throw error;
    problems.push(unlinkable(`Cannot link ${family} ${table}: ${error.message}`));
  }
  const bodies = new Map([...rules].map(([chain, list]) => [chain, list.map(({ body }) => body.text)] as const));
  const baseChains = baseChainsOf(table, bodies, provideKubeChains, inPlace ? family : undefined);
  const program = { chains: namer.chains, entries, baseChains, jumps: treeJumps(table, baseChains) };
  return { program, dispatched };
}

/** The rules of each declared base chain, in the order of the files. */
export function rulesOfBases(table: TableName, units: readonly TableUnit[]): ReadonlyMap<string, LinkedRule[]> {
  const rules = new Map<string, LinkedRule[]>();
  for (const { bases } of units) for (const chain of bases) if (isBase(table, chain)) rules.set(chain, []);
  for (const { base } of units) for (const rule of base) rules.get(rule.chain)?.push(rule);
  return rules;
}

const isBase = (table: TableName, name: string): boolean =>
  dispatchOrder[table].includes(name) || isFixture(table, name);
const isFixture = (table: TableName, name: string): boolean =>
  (baseChainNames[table] as readonly string[]).includes(name);

/** Callees first: the tail of KUBE-SERVICES jumps to KUBE-NODEPORTS. */
const dispatchOrder: Readonly<Record<TableName, readonly string[]>> = {
  filter: entryChains.filter,
  nat: ['KUBE-NODEPORTS', ...entryChains.nat],
};

/** Every dispatch chain of a table. @param one makes it, from the roots of the chains that it may jump to */
export function dispatchAll(
  table: TableName,
  one: (base: string, roots: ReadonlyMap<string, TreeChain>) => Dispatch,
): ReadonlyMap<string, Dispatch> {
  const done = new Map<string, Dispatch>();
  const roots = new Map<string, TreeChain>();
  for (const base of dispatchOrder[table]) {
    const dispatched = one(base, new Map(roots));
    done.set(base, dispatched);
    roots.set(base, dispatched.root);
  }
  return done;
}
