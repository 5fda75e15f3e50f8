import type { Problem } from '../../problem.ts';
import type { ResolvedSection } from '../../resolve.ts';
import type { TableName } from '../../rulefile.ts';
import { Layered } from '../layered.ts';
import { PackedChains } from '../packed.ts';
import { type FamilyProgram, tableNames, type TableProgram } from '../program.ts';
import { dispatchedChains } from './dispatch.ts';
import { settledProgram } from './flatten.ts';
import { type LinkedParts, linkParts, type TreeOptions } from './link.ts';
import { TreeMemory } from './memory.ts';
import { noteRenamed, sameLines, renamedOf } from './names.ts';
import type { TreeChain } from './program.ts';
import { type Link, type LinkTable, relink } from './relink.ts';

/** A settled program, and what is wrong with it. Only a program without problems may reach a kernel. */
export interface LinkedProgram {
  readonly program: FamilyProgram;
  readonly problems: readonly Problem[];
}

/**
 * Links one family again and again, and gives what `settledProgram` makes of `linkTree`, entry by entry.
 *
 * Where a few files have other contents, the program is made from the one before: what did not change is the same object in both, and
 * costs nothing. What the kernel holds is shared in the same way: a chain that is there with its rules is that object.
 */
export class TreeLinker {
  readonly #memory = new TreeMemory();
  #last: Link | undefined;

  /**
   * The program made from the last one.
   * @returns undefined when that cannot be done: the files are others, or lead elsewhere, or there was no program yet
   */
  again(files: readonly (readonly ResolvedSection[])[], options: TreeOptions): FamilyProgram | undefined {
    const before = this.#last;
    const next = before && relink(before, files, options, this.#memory);
    if (!next) return undefined;
    this.#last = next;
    for (const table of tableNames) {
      const { chains } = next.program[table];
      // What had piled up above the packed chains was packed, too.
      if (chains !== before.program[table].chains && chains instanceof Layered && chains.flat) {
        for (const unit of next.units) holdPacked(unit[table].chains, chains);
        for (const one of next.tables[table].dispatched.values()) holdPacked(dispatchedChains(one), chains);
      }
    }
    return next.program;
  }

  /** The program put together from all files. */
  link(files: readonly (readonly ResolvedSection[])[], options: TreeOptions): LinkedProgram {
    const { taken } = options;
    // What is known of the last program's names need not be found out again.
    if (taken && this.#last)
      for (const table of tableNames) renamedOf(taken[table].chains, this.#last.program[table].chains);
    const parts = linkParts(files, options, this.#memory);
    const tree = treeOf(parts);
    const program = onto(options.taken, settledProgram(tree));
    const isPlain = parts.problems.length === 0 && tableNames.every((table) => isApart(parts, table));
    this.#last = isPlain ? linkOf(parts, files, options, program) : undefined;
    for (const table of tableNames) holdPacked(tree[table].chains.values(), program[table].chains);
    return { program, problems: parts.problems };
  }
}

const treeOf = ({ tables }: LinkedParts) => ({ filter: tables.filter.program, nat: tables.nat.program });

function linkOf(
  { units, tables, inPlace }: LinkedParts,
  files: Link['files'],
  options: TreeOptions,
  program: FamilyProgram,
): Link {
  const tableOf = (table: TableName): LinkTable => {
    const { dispatched } = tables[table];
    const inner = [...dispatched.values()].flatMap((one) => [...dispatchedChains(one)]);
    noteRenamed(program[table].chains, tables[table].program.chains.values());
    return { dispatched, inner: new Set(inner.map(({ name }) => name)) };
  };
  return { files, options, units, program, inPlace, tables: { filter: tableOf('filter'), nat: tableOf('nat') } };
}

/** Whether no two files have a chain in common, so that the chains of one can go without asking the others. */
function isApart({ units, tables }: LinkedParts, table: TableName): boolean {
  const { program, dispatched } = tables[table];
  const inner = new Set([...dispatched.values()].flatMap((one) => [...dispatchedChains(one)].map(({ name }) => name)));
  const own = units.reduce((sum, unit) => sum + new Set(unit[table].chains.map(({ name }) => name)).size, 0);
  return own + inner.size === program.chains.size;
}

/** The program with the chains of another one where the rules are the same. */
function onto(held: FamilyProgram | undefined, program: FamilyProgram): FamilyProgram {
  const table = (name: TableName): TableProgram => ontoTable(held?.[name], program[name]);
  return { filter: table('filter'), nat: table('nat') };
}

/** Rules are held once: the chains of files have those of the program, which may be older than they are. */
function holdPacked(own: Iterable<TreeChain>, chains: TableProgram['chains']): void {
  for (const chain of own) {
    const below = chains instanceof Layered ? chains.below(chain.name) : undefined;
    const rules = below instanceof PackedChains ? below.place(chain.name) : chains.get(chain.name);
    if (rules) chain.hold(rules);
  }
}

function ontoTable(held: TableProgram | undefined, { chains, jumps }: TableProgram): TableProgram {
  if (!held) return { chains: packed(chains), jumps };
  const changes = new Map<string, readonly string[] | undefined>();
  for (const name of held.chains.keys()) if (!chains.has(name)) changes.set(name, undefined);
  for (const [name, rules] of chains) {
    const before = held.chains.get(name);
    changes.set(name, before && sameLines(before, rules) ? before : rules);
  }
  const shared = packed(held.chains).with(changes);
  return shared === held.chains && sameLines(held.jumps, jumps) ? held : { chains: shared, jumps };
}

/** Chains that were not packed yet; others are what they are. */
function packed(chains: TableProgram['chains']): Layered<readonly string[]> {
  const isReady = chains instanceof Layered || chains instanceof PackedChains;
  return Layered.of<readonly string[]>(isReady ? chains : PackedChains.of(chains));
}
