import {
  emptyTable,
  type Family,
  type FamilyProgram,
  type NftState,
  type SysctlKey,
  type TableName,
  tableNames,
  type TableProgram,
  targetOf,
  isNatOfTree,
  treeEntries,
  isRoot,
} from '@sluice/netfilter';
import { type IpvsNames, ipvsNames, joinIpvsNames, type NodeIpvs } from './ipvs/values.ts';

/** Sluice's rules and settings of one node, desired or observed: the unit that is planned, stored, verified and restored. */
export interface NodeState {
  readonly families: { readonly [F in Family]?: FamilyProgram };
  readonly sysctls: ReadonlyMap<SysctlKey, number>;
  /** A floor: the conntrack hash table is raised to it and never made smaller. */
  readonly conntrackHashSize?: number;
  /** In mode ipvs. */
  readonly ipvs?: NodeIpvs;
  /** In mode nftables; `families` is empty then. */
  readonly nft?: NftState;
  /** In modes ipvs and nftables; left out where it is not known. */
  readonly services?: ServiceNames;
  /** The networks in which endpoint updates may add endpoints; left out: anywhere. */
  readonly endpointRanges?: readonly string[];
}

/**
 * What each Service, `shop/cart`, has for itself: its frontends and ports of health checks, as `nftNames` spells them; in mode ipvs its
 * virtual servers, `10.96.0.10:80/TCP`.
 */
export type ServiceNames = ReadonlyMap<string, readonly string[]>;

/** Names of chains, by family and table, and of sets, servers and addresses of mode ipvs; whether the table of mode nftables is ours. */
export type OwnedNames = { readonly [F in Family]?: Readonly<Record<TableName, readonly string[]>> } & {
  readonly ipvs?: IpvsNames;
  readonly nft?: true;
};

/** A whole table as the kernel prints it, with foreign rules. */
export interface ObservedTable {
  /** All chains, each with its rules as iptables-save prints them. */
  readonly chains: ReadonlyMap<string, ObservedChain>;
}
export interface ObservedChain {
  readonly builtIn: boolean;
  readonly rules: readonly string[];
}
export type ObservedFamily = Readonly<Record<TableName, ObservedTable>>;
/** Both tables of every family that the node has tools for. */
export type Observed = { readonly [F in Family]?: ObservedFamily };

export const familyNames = ['ipv4', 'ipv6'] as const satisfies readonly Family[];

/** The families that a state has rules for, IPv4 first. */
export function familiesOf(state: Pick<NodeState, 'families'>): readonly Family[] {
  return familyNames.filter((family) => state.families[family] !== undefined);
}

/** One table of a state; empty when the state has no such family. */
export function tableOf(state: Pick<NodeState, 'families'>, family: Family, table: TableName): TableProgram {
  return state.families[family]?.[table] ?? emptyTable;
}

/** Builds a state's families from one function of family and table. */
export function mapTables(
  families: readonly Family[],
  make: (family: Family, table: TableName) => TableProgram,
): NodeState['families'] {
  const result: { [F in Family]?: FamilyProgram } = {};
  for (const family of families) result[family] = { filter: make(family, 'filter'), nat: make(family, 'nat') };
  return result;
}

/** The names of all chains of a state. */
export function chainNames(state: Pick<NodeState, 'families' | 'ipvs' | 'nft'>): OwnedNames {
  const names: { [F in Family]?: Record<TableName, readonly string[]> } = {};
  for (const family of familiesOf(state)) {
    const listed = (table: TableName): readonly string[] => [...tableOf(state, family, table).chains.keys()];
    // Lazy: a change from a remembered state does not need them.
    names[family] = {
      get filter() {
        return listed('filter');
      },
      get nat() {
        return listed('nat');
      },
    };
  }
  return {
    ...names,
    ...(state.ipvs ? { ipvs: ipvsNames(state.ipvs) } : {}),
    ...(state.nft ? { nft: true } : {}),
  };
}

/** The names without some of their chains. */
export function withoutNames(names: OwnedNames, leaves: (name: string) => boolean): OwnedNames {
  const kept = familyNames.flatMap((family) => {
    const own = names[family];
    const of = (table: TableName): readonly string[] => own?.[table].filter((name) => !leaves(name)) ?? [];
    return own ? [[family, { filter: of('filter'), nat: of('nat') }] as const] : [];
  });
  return { ...names, ...Object.fromEntries(kept) };
}

/** The names of both, each once. */
export function joinNames(a: OwnedNames, b: OwnedNames): OwnedNames {
  const names: { [F in Family]?: Record<TableName, readonly string[]> } = {};
  for (const family of familyNames) {
    const tables = { filter: [] as string[], nat: [] as string[] };
    for (const table of tableNames) {
      tables[table] = [...new Set([...(a[family]?.[table] ?? []), ...(b[family]?.[table] ?? [])])];
    }
    if (a[family] || b[family]) names[family] = tables;
  }
  return {
    ...names,
    ...(a.ipvs || b.ipvs ? { ipvs: joinIpvsNames(a.ipvs, b.ipvs) } : {}),
    ...(a.nft || b.nft ? { nft: true } : {}),
  };
}

/** Whether a state is in layout `tree`. */
export function isTree(state: Pick<NodeState, 'families'>): boolean {
  return Object.values(state.families).some((program) => isNatOfTree(program.nat));
}

/** The roots of a program, outside of a transaction, by entry chain; an entry chain without a root is left out. */
export function rootsOf(table: TableName, { chains }: TableProgram): ReadonlyMap<string, string> {
  const roots = new Map<string, string>();
  for (const entry of treeEntries[table]) {
    const root = targetOf(chains.get(entry)?.at(-1) ?? '');
    if (root !== undefined && isRoot(root)) roots.set(entry, root);
  }
  return roots;
}
