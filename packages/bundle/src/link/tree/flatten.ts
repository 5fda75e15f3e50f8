import type { FamilyProgram, TableProgram } from '../program.ts';
import { settledEntries, trialEntries } from './entries.ts';
import type { TreeProgram, TreeTable } from './program.ts';

/** A settled tree program as the kernel holds it: what `printProgram` prints and the tracer runs. */
export function settledProgram(program: TreeProgram): FamilyProgram {
  return {
    filter: tableOf(program.filter, settledEntries(program.filter), []),
    nat: tableOf(program.nat, settledEntries(program.nat), []),
  };
}

/**
 * Two programs while one is on trial, as the kernel holds them. Fixtures and jumps are those of the confirmed one, which the
 * trial does not change.
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
