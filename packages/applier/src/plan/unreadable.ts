import { isTreeChain, type TableProgram } from '@sluice/netfilter';
import { type Kernel, type UnreadableTable, UnreadableTables } from '../ports/kernel.ts';
import {
  familyNames,
  type NodeState,
  type Observed,
  type ObservedChain,
  type ObservedTable,
  type OwnedNames,
  tableOf,
} from '../ports/node-state.ts';

/**
 * Tables that iptables cannot print (`UnreadableTables`). Their rules are not known, but the names of their chains are. So a table without
 * a chain of ours has no jump of ours either, and can be loaded, as at a boot. In a table with a chain of ours no step can be planned:
 * each repair would add jumps once more.
 */
export interface ObservedTables {
  readonly observed: Observed;
  /** The tables that cannot be read. */
  readonly unreadable?: UnreadableTables | undefined;
}

/**
 * Reads the tables before they are written.
 * @param owned names that are ours
 * @throws UnreadableTables where an unreadable table has, or may have, chains of ours
 */
export async function observeToWrite(
  families: Parameters<Kernel['observe']>[0],
  desired: NodeState,
  owned: OwnedNames,
  kernel: Pick<Kernel, 'observe'>,
): Promise<ObservedTables> {
  try {
    return { observed: await kernel.observe(families, desired) };
  } catch (error) {
    if (!(error instanceof UnreadableTables) || error.tables.some((one) => mayHoldOurs(one, owned))) throw error;
    return { observed: error.observed, unreadable: error };
  }
}

/**
 * Reads the tables for a comparison with the active generation: an unreadable table with chains of ours is taken for right, so that all
 * other tables are compared and repaired.
 * @param owned names that are ours
 * @throws Interrupted
 */
export async function observeToCompare(
  families: Parameters<Kernel['observe']>[0],
  active: NodeState,
  owned: OwnedNames,
  kernel: Pick<Kernel, 'observe'>,
  interrupt?: AbortSignal,
): Promise<ObservedTables> {
  try {
    return { observed: await kernel.observe(families, active, interrupt) };
  } catch (error) {
    if (!(error instanceof UnreadableTables)) throw error;
    const held = error.tables.filter((one) => mayHoldOurs(one, owned));
    return { observed: withTables(error.observed, held, active), unreadable: error };
  }
}

/**
 * Reads the tables for a decision that needs the names of chains and no rules.
 * @throws UnreadableTables where not even the names are known
 */
export async function observeNames(
  families: Parameters<Kernel['observe']>[0],
  kernel: Pick<Kernel, 'observe'>,
): Promise<ObservedTables> {
  try {
    return { observed: await kernel.observe(families) };
  } catch (error) {
    if (!(error instanceof UnreadableTables) || error.tables.some(({ chains }) => chains === undefined)) throw error;
    return { observed: error.observed, unreadable: error };
  }
}

function mayHoldOurs({ family, table, chains }: UnreadableTable, owned: OwnedNames): boolean {
  const own = new Set(owned[family]?.[table]);
  return chains === undefined || chains.some((name) => own.has(name) || isTreeChain(name));
}

function withTables(observed: Observed, tables: readonly UnreadableTable[], state: NodeState): Observed {
  const isHeld = (family: string, table: string): boolean =>
    tables.some((one) => one.family === family && one.table === table);
  const families = familyNames.flatMap((family) => {
    const read = observed[family];
    const of = (table: 'filter' | 'nat', own: ObservedTable): ObservedTable =>
      isHeld(family, table) ? asObserved(tableOf(state, family, table)) : own;
    return read ? [[family, { filter: of('filter', read.filter), nat: of('nat', read.nat) }] as const] : [];
  });
  return Object.fromEntries(families);
}

/** A table that holds these rules and no others. */
function asObserved({ chains, jumps }: TableProgram): ObservedTable {
  const all = new Map<string, ObservedChain>();
  for (const [name, rules] of chains) all.set(name, { builtIn: false, rules });
  for (const rule of jumps) {
    const name = rule.split(' ')[1] ?? '';
    all.set(name, { builtIn: true, rules: [...(all.get(name)?.rules ?? []), rule] });
  }
  return { chains: all };
}
