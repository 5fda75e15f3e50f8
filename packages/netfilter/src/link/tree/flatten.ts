import type { FamilyProgram, TableProgram } from '../program.ts';
import { settledEntries, trialEntries } from './entries.ts';
import type { TreeProgram, TreeTable } from './program.ts';

/** A tree program outside of probation as the kernel has it: for `printProgram` and the tracer. */
export function settledProgram(program: TreeProgram): FamilyProgram {
  return {
    filter: tableOf(program.filter, settledEntries(program.filter), []),
    nat: tableOf(program.nat, settledEntries(program.nat), []),
  };
}

/**
 * Two programs as the kernel has them during probation. Base chains and jumps are those of the confirmed one, which probation does not
 * change.
 */
export function trialProgram(confirmed: TreeProgram, trial: TreeProgram): FamilyProgram {
  const table = (name: keyof TreeProgram): TableProgram =>
    tableOf(confirmed[name], trialEntries(name, confirmed[name], trial[name]), [trial[name]]);
  return { filter: table('filter'), nat: table('nat') };
}

function tableOf(
  table: TreeTable,
  entries: ReadonlyMap<string, readonly string[]>,
  others: readonly TreeTable[],
): TableProgram {
  const shared = [table, ...others].flatMap(({ chains }) =>
    [...chains].map(([name, { rules }]) => [name, rules] as const),
  );
  return { chains: new Map([...table.baseChains, ...shared, ...entries]), jumps: table.jumps };
}
