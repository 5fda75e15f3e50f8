import type { FamilyProgram, TableProgram } from '../program.ts';
import { settledEntries } from './entries.ts';
import type { TreeProgram, TreeTable } from './program.ts';

/** A tree program outside of probation as the kernel has it: for `printProgram` and the tracer. */
export function settledProgram({ filter, nat }: TreeProgram): FamilyProgram {
  return { filter: tableOf(filter), nat: tableOf(nat) };
}

function tableOf(table: TreeTable): TableProgram {
  const own = [...table.chains].map(([name, { rules }]) => [name, rules] as const);
  return { chains: new Map([...table.baseChains, ...own, ...settledEntries(table)]), jumps: table.jumps };
}
