import type { FileSections } from '../section.ts';
import { commonEnds } from '../../common-ends.ts';
import type { TableName } from '../../family.ts';
import { differing, Layered } from '../../layered.ts';
import { type FamilyProgram, tableNames, type TableProgram } from '../program.ts';
import { type Dispatch, dispatch, dispatchedChains, keyOf, redispatch } from './dispatch.ts';
import { settledEntries } from './entries.ts';
import { entryChains, baseChainNames, baseChainName } from './base-chains.ts';
import type { Swap } from './grow.ts';
import { matchesMark } from './in-place.ts';
import { limitProblems } from './limits.ts';
import { declarationProblems, dispatchAll, namersOf, placeUnits, rulesOfBases, type TreeOptions } from './link.ts';
import { sectionsDependOnHost, type TreeMemory } from './memory.ts';
import { naturalName, NamesExhausted, sameLines, type ChainNamer, stemOf, renamedOf } from './names.ts';
import type { TreeChain, LinkedRule, TableUnit, FileUnits } from './program.ts';
import { noUnits } from './unit.ts';

/** A linked family, with the parts for making the next program from it. */
export interface LinkState {
  readonly files: readonly FileSections[];
  readonly options: TreeOptions;
  /** Of each file; no two share a chain. */
  readonly units: readonly FileUnits[];
  readonly tables: Readonly<Record<TableName, TableState>>;
  readonly program: FamilyProgram;
  /** `LinkScope.inPlace` */
  readonly inPlace: boolean;
}

export interface TableState {
  /** By base chain. */
  readonly dispatched: ReadonlyMap<string, Dispatch>;
  /** The names of all chains in these. */
  readonly inner: ReadonlySet<string>;
  /** The base chains that files name; each is declared. */
  readonly named: ReadonlySet<string>;
}

/** A changed file; of one that was added or removed `noUnits` on one side. */
interface Replaced {
  readonly old: FileUnits;
  readonly relinked: FileUnits;
}

/** With more changed files than this, all files are linked. */
const replacedMax = 256;

/**
 * Makes a program from the last one, where some files changed, came or went. Where they kept their shape, which is that the same rules jump
 * to the file's chains under the same addresses and ports, the trees keep their form, and only the paths to those chains are made again.
 * Else the trees are carved again. Chains of other files are not looked at.
 * @returns undefined where base chains changed, or where a chain would get another name for a reason other than its rules
 */
export function relink(
  last: LinkState,
  files: LinkState['files'],
  options: TreeOptions,
  memory: TreeMemory,
): LinkState | undefined {
  if (!sameScope(last.options, options) || !keepsNames(last, options)) return undefined;
  const found = differingPlaces(last.files, files);
  if (!found || found.added.length + found.removed.length > replacedMax) return undefined;
  if (found.added.some((at) => sectionsDependOnHost(files[at] as FileSections))) return undefined;
  const namers = namersOf(options);
  const scope = { family: options.family, host: options.host ?? {}, inPlace: last.inPlace };
  const units = found.kept.map((at) => (at === undefined ? noUnits : (last.units[at] as FileUnits)));
  const gone = new Set(found.removed);
  const replaced: Replaced[] = [];
  // Otherwise a file could take the place of another one with files that stay between both, and rules for one key change their order.
  const isSteady = found.kept.every((before, at) => before === undefined || before === at);
  for (const at of found.added) {
    const isInPlace = isSteady && gone.delete(at);
    const relinked = placeUnits(files[at] as FileSections, scope, namers, memory);
    units[at] = relinked;
    replaced.push({ old: isInPlace ? (last.units[at] as FileUnits) : noUnits, relinked });
  }
  for (const at of gone) replaced.push({ old: last.units[at] as FileUnits, relinked: noUnits });
  const nat = relinkTable('nat', last, replaced, units, namers.nat);
  const filter = nat && relinkTable('filter', last, replaced, units, namers.filter);
  if (!nat || !filter || !haveDistinctChains(replaced)) return undefined;
  const program = { filter: filter.program, nat: nat.program };
  return { files, options, units, program, inPlace: last.inPlace, tables: { filter: filter.table, nat: nat.table } };
}

/** Whether no two of the files share a chain: a later change of one file would delete it from the other. */
function haveDistinctChains(replaced: readonly Replaced[]): boolean {
  return tableNames.every((table) => {
    // One file may have a group twice: SVC and SVL of a Service whose endpoints are all on this node.
    const names = replaced.flatMap(({ relinked }) => [...new Set(relinked[table].chains.map(({ name }) => name))]);
    return new Set(names).size === names.length;
  });
}

/** How a list of files differs from the one before, by places. */
interface DifferingPlaces {
  /** In the list before, of each file; undefined: it is new. */
  readonly kept: readonly (number | undefined)[];
  readonly added: readonly number[];
  /** In the list before. */
  readonly removed: readonly number[];
}

/** @returns undefined where files have another order, or one is in a list twice */
function differingPlaces(before: LinkState['files'], files: LinkState['files']): DifferingPlaces | undefined {
  const { head, tail } = commonEnds(before, files);
  const places = new Map<FileSections, number>();
  for (let at = head; at < before.length - tail; at++) places.set(before[at] as FileSections, at);
  if (places.size < before.length - tail - head) return undefined;
  const shift = before.length - files.length;
  const kept = files.map((file, at) => (at < head ? at : at < files.length - tail ? places.get(file) : at + shift));
  const known = kept.filter((at) => at !== undefined);
  if (known.some((at, index) => index > 0 && at <= (known[index - 1] as number))) return undefined;
  const stays = new Set(known);
  return {
    kept,
    added: kept.flatMap((at, place) => (at === undefined ? [place] : [])),
    removed: [...places.values()].filter((at) => !stays.has(at)),
  };
}

/** Whether files are linked for the same machine. */
function sameScope(a: TreeOptions, b: TreeOptions): boolean {
  const scope = ({ family, host = {}, provideKubeChains = false, knowsBpf = true }: TreeOptions): string =>
    JSON.stringify([family, host, provideKubeChains, knowsBpf]);
  return scope(a) === scope(b);
}

/**
 * Whether every chain of the last program would get its name again. Names depend on the chains in the kernel, so chains that changed there
 * since are examined; mostly the kernel has the last program.
 */
function keepsNames({ options, program }: LinkState, { taken }: TreeOptions): boolean {
  return tableNames.every((table) => {
    const before = options.taken?.[table].chains ?? none;
    const now = taken?.[table].chains ?? none;
    const own = program[table].chains;
    if (now === before) return true;
    const held = renamedOf(now, now === own ? undefined : before);
    return (
      differing(before, now).every((name) => isFree(name, now, own)) &&
      [...renamedOf(own, before)].every(([digest, name]) => held.get(digest) === name) &&
      [...held].every(([digest, name]) => own.has(name) || !own.has(naturalName(stemOf(name) ?? '', digest)))
    );
  });
}

/** Whether the kernel has no other rules under a name of the last program. */
function isFree(name: string, held: TableProgram['chains'], own: TableProgram['chains']): boolean {
  const [lines, mine] = [held.get(name), own.get(name)];
  return !lines || !mine || stemOf(name) === undefined || sameLines(lines, mine);
}

const none: TableProgram['chains'] = new Map();

/** Whether the rules of two units are in the same base chains, at the same positions. */
function sameShape(table: TableName, a: TableUnit, b: TableUnit): boolean {
  if (b.problems.length > 0 || a.base.length !== b.base.length) return false;
  if (!sameLines(a.bases, b.bases) || !sameLines(a.named, b.named)) return false;
  return a.base.every((rule, at) => sameDispatch(table, rule, b.base[at] as LinkedRule));
}

function sameDispatch(table: TableName, a: LinkedRule, b: LinkedRule): boolean {
  if (a.chain !== b.chain || a.calls !== b.calls || a.isTerminal !== b.isTerminal) return false;
  if ((baseChainNames[table] as readonly string[]).includes(a.chain) || matchesMark(a) || matchesMark(b))
    return a.body.text === b.body.text;
  return a.place.kind === b.place.kind && keyOf(a) === keyOf(b);
}

/** Whether all that the rules of a unit do is to lead to Services: then trees have them, and nothing else depends on them. */
const isDispatched = (table: TableName, { bases, base, problems }: TableUnit): boolean =>
  bases.length + problems.length === 0 &&
  base.every((rule) => !(baseChainNames[table] as readonly string[]).includes(rule.chain) && !matchesMark(rule));

type ChainChanges = Map<string, readonly string[] | undefined>;

function relinkTable(
  name: TableName,
  { options, tables, program }: LinkState,
  replaced: readonly Replaced[],
  units: LinkState['units'],
  namer: ChainNamer,
): { readonly table: TableState; readonly program: TableProgram } | undefined {
  const { inner: innerBefore } = tables[name];
  if (replaced.every(({ old, relinked }) => old[name] === relinked[name]))
    return { table: tables[name], program: program[name] };
  const reshaped = replaced.filter(({ old, relinked }) => !sameShape(name, old[name], relinked[name]));
  if (!reshaped.every(({ old, relinked }) => isDispatched(name, old[name]) && isDispatched(name, relinked[name])))
    return undefined;
  const { named: namedBefore } = tables[name];
  const named = new Set([...namedBefore, ...reshaped.flatMap(({ relinked }) => relinked[name].named)]);
  const ofTable = units.map((one) => one[name]);
  if (named.size > namedBefore.size && declarationProblems(name, options.family, ofTable).length > 0) return undefined;
  const dispatched = redispatched(name, tables[name].dispatched, { replaced, reshaped, ofTable }, namer);
  if (!dispatched || limitProblems(name, options.family, dispatched).length > 0) return undefined;
  const inner = new Set(
    [...dispatched.values()].flatMap((one) => [...dispatchedChains(one)].map((chain) => chain.name)),
  );
  const changes: ChainChanges = new Map(
    [...innerBefore].filter((one) => !inner.has(one)).map((one) => [one, undefined]),
  );
  for (const { old } of replaced) for (const chain of old[name].chains) changes.set(chain.name, undefined);
  const held = program[name].chains;
  for (const chain of namer.chains.values()) if (!addChain(chain, held, changes, innerBefore)) return undefined;
  for (const [entry, rules] of entriesOf(name, dispatched))
    if (!sameLines(held.get(entry) ?? [], rules)) changes.set(entry, rules);
  const next = Layered.of(held).with(changes);
  renamedOf(next, held);
  const table = next === held ? program[name] : { chains: next, jumps: program[name].jumps };
  return { table: { dispatched, inner, named }, program: table };
}

/** The changed files of a table, those of them whose rules are at other places, and all units of the table. */
interface TableChange {
  readonly replaced: readonly Replaced[];
  readonly reshaped: readonly Replaced[];
  readonly ofTable: readonly TableUnit[];
}

function redispatched(
  table: TableName,
  before: TableState['dispatched'],
  { replaced, reshaped, ofTable }: TableChange,
  namer: ChainNamer,
): TableState['dispatched'] | undefined {
  const swap: Swap = new Map(
    replaced
      .filter((one) => !reshaped.includes(one))
      .flatMap(({ old, relinked }) =>
        old[table].base.map((rule, at) => [rule, relinked[table].base[at] as LinkedRule] as const),
      ),
  );
  const removed = reshaped.flatMap(({ old }) => old[table].base);
  const added = reshaped.flatMap(({ relinked }) => relinked[table].base);
  let all: ReturnType<typeof rulesOfBases> | undefined;
  return unlessExhausted(() =>
    dispatchAll(table, (base, roots) => {
      const last = before.get(base) as Dispatch;
      const ofBase = (rules: readonly LinkedRule[]): readonly LinkedRule[] =>
        rules.filter(({ chain }) => chain === base);
      const changes = { swap, removed: ofBase(removed), added: ofBase(added) };
      const isOrdered = last.rest.length === 0 || precedeTail(changes.added, base, ofTable);
      const again = isOrdered ? redispatch(last, changes, namer, roots) : undefined;
      if (again) return again;
      all ??= rulesOfBases(table, ofTable);
      return dispatch(all.get(base) ?? [], namer, roots);
    }),
  );
}

/** Whether rules are in files before another one with rules for trees, so before the tail of the base chain. */
function precedeTail(rules: readonly LinkedRule[], base: string, ofTable: readonly TableUnit[]): boolean {
  if (rules.length === 0) return true;
  const own = new Set(rules);
  const isForTree = ({ chain, place }: LinkedRule): boolean => chain === base && place.kind !== 'rest';
  const last = ofTable.findLast((unit) => unit.base.some(isForTree));
  return last !== undefined && !last.base.some((rule) => own.has(rule));
}

function unlessExhausted<T>(make: () => T): T | undefined {
  try {
    return make();
  } catch (error) {
    if (error instanceof NamesExhausted) return undefined;
    throw error;
  }
}

function entriesOf(table: TableName, dispatched: TableState['dispatched']): ReadonlyMap<string, readonly string[]> {
  const roots = entryChains[table].map((base) => [baseChainName(base), dispatched.get(base)?.root.name ?? ''] as const);
  return settledEntries({ entries: new Map(roots) });
}

/**
 * Records a chain that was made. An existing chain with equal rules keeps its identity.
 * @param inner chains in dispatch chains, which may stay though they were made again
 * @returns false when a chain that stays has the same name
 */
function addChain(
  chain: TreeChain,
  held: TableProgram['chains'],
  changes: ChainChanges,
  inner: ReadonlySet<string>,
): boolean {
  const { name, rules } = chain;
  const old = held.get(name);
  const isSame = old !== undefined && sameLines(old, rules);
  // Each rule is in memory once.
  if (isSame) chain.hold(old);
  if (old && !changes.has(name)) return isSame && inner.has(name);
  changes.set(name, isSame ? old : rules);
  return true;
}
