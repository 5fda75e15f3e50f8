import type { Problem } from '../../problem.ts';
import type { ResolvedSection } from '../section.ts';
import type { TableName } from '../../family.ts';
import { Layered } from '../../layered.ts';
import { type FamilyProgram, tableNames, type TableProgram } from '../program.ts';
import { dispatchedChains } from './dispatch.ts';
import { settledProgram } from './flatten.ts';
import { type LinkedParts, linkParts, type TreeOptions } from './link.ts';
import { TreeMemory } from './memory.ts';
import { noteRenamed, sameLines, renamedOf } from './names.ts';
import type { TreeChain } from './program.ts';
import { type LinkState, type TableState, relink } from './relink.ts';

/** A program outside of probation, and its problems. Only a program without problems may be loaded. */
interface LinkedProgram {
  readonly program: FamilyProgram;
  readonly problems: readonly Problem[];
}

/**
 * Links one family repeatedly; the result equals `settledProgram` of `linkTree`.
 *
 * When few files changed, the program is made from the last one: unchanged chains keep their identity and cost nothing. Chains that the
 * kernel has are shared in the same way.
 */
export class TreeLinker {
  readonly #memory = new TreeMemory();
  #last: LinkState | undefined;

  /**
   * Makes the program from the last one.
   * @returns undefined when that is impossible: other base rules, many other files, or no program yet
   */
  relink(files: readonly (readonly ResolvedSection[])[], options: TreeOptions): FamilyProgram | undefined {
    const before = this.#last;
    const next = before && relink(before, files, options, this.#memory);
    if (!next) return undefined;
    this.#last = next;
    return next.program;
  }

  /** Links the program from all files. */
  link(files: readonly (readonly ResolvedSection[])[], options: TreeOptions): LinkedProgram {
    const { taken } = options;
    // Takes over the renamed chains known of the last program.
    if (taken && this.#last)
      for (const table of tableNames) renamedOf(taken[table].chains, this.#last.program[table].chains);
    const parts = linkParts(files, options, this.#memory);
    const tree = treeOf(parts);
    const program = shareChains(options.taken, settledProgram(tree));
    const isPlain = parts.problems.length === 0 && tableNames.every((table) => haveDistinctChains(parts, table));
    this.#last = isPlain ? linkOf(parts, files, options, program) : undefined;
    for (const table of tableNames) holdRules(tree[table].chains.values(), program[table].chains);
    return { program, problems: parts.problems };
  }
}

const treeOf = ({ tables }: LinkedParts) => ({ filter: tables.filter.program, nat: tables.nat.program });

function linkOf(
  { units, tables, inPlace }: LinkedParts,
  files: LinkState['files'],
  options: TreeOptions,
  program: FamilyProgram,
): LinkState {
  const tableOf = (table: TableName): TableState => {
    const { dispatched } = tables[table];
    const inner = [...dispatched.values()].flatMap((one) => [...dispatchedChains(one)]);
    noteRenamed(program[table].chains, tables[table].program.chains.values());
    const named = new Set(units.flatMap((unit) => unit[table].named));
    return { dispatched, inner: new Set(inner.map(({ name }) => name)), named };
  };
  return { files, options, units, program, inPlace, tables: { filter: tableOf('filter'), nat: tableOf('nat') } };
}

/** Whether no two files share a chain, so that the chains of one can be deleted without regard to the others. */
function haveDistinctChains({ units, tables }: LinkedParts, table: TableName): boolean {
  const { program, dispatched } = tables[table];
  const inner = new Set([...dispatched.values()].flatMap((one) => [...dispatchedChains(one)].map(({ name }) => name)));
  const own = units.reduce((sum, unit) => sum + new Set(unit[table].chains.map(({ name }) => name)).size, 0);
  return own + inner.size === program.chains.size;
}

/** The program with the chain objects of the observed one where their rules are equal. */
function shareChains(observed: FamilyProgram | undefined, program: FamilyProgram): FamilyProgram {
  const table = (name: TableName): TableProgram => shareTable(observed?.[name], program[name]);
  return { filter: table('filter'), nat: table('nat') };
}

/** Keeps each rule in memory once: the chains of files refer to the rules of the program. */
function holdRules(own: Iterable<TreeChain>, chains: TableProgram['chains']): void {
  for (const chain of own) {
    const rules = chains.get(chain.name);
    if (rules) chain.hold(rules);
  }
}

function shareTable(observed: TableProgram | undefined, { chains, jumps }: TableProgram): TableProgram {
  if (!observed) return { chains: Layered.of(chains), jumps };
  const changes = new Map<string, readonly string[] | undefined>();
  for (const name of observed.chains.keys()) if (!chains.has(name)) changes.set(name, undefined);
  for (const [name, rules] of chains) {
    const before = observed.chains.get(name);
    changes.set(name, before && sameLines(before, rules) ? before : rules);
  }
  const shared = Layered.of(observed.chains).with(changes);
  return shared === observed.chains && sameLines(observed.jumps, jumps) ? observed : { chains: shared, jumps };
}
