import type { FamilyProgram, TableProgram } from '../program.ts';
import { settledEntries, trialEntries } from './entries.ts';
import { linesOf, type TreeChain, type TreeProgram, type TreeTable } from './program.ts';

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

/** Two programs that share a chain share its lines, so that comparing them costs a look at each. */
const lines = new WeakMap<TreeChain, readonly string[]>();
const digests = new WeakMap<readonly string[], string>();

function chainLines(chain: TreeChain): readonly string[] {
  const known = lines.get(chain);
  if (known) return known;
  const fresh = linesOf(chain);
  lines.set(chain, fresh);
  digests.set(fresh, chain.digest);
  return fresh;
}

/** The digest of a chain that this process linked, by its rules as they stand in a program; undefined for any others. */
export function linkedDigest(rules: readonly string[]): string | undefined {
  return digests.get(rules);
}

function tableOf(
  table: TreeTable,
  entries: ReadonlyMap<string, readonly string[]>,
  others: readonly TreeTable[],
): TableProgram {
  const shared = [table, ...others].flatMap(({ chains }) =>
    [...chains].map(([name, chain]) => [name, chainLines(chain)] as const),
  );
  return { chains: new Map([...table.fixtures, ...shared, ...entries]), jumps: table.jumps };
}
