import {
  addAll,
  canonicalRule,
  type Family,
  isKubeProxyChain,
  isTreeChain,
  jumpedChains,
  Layered,
  sharedChains,
  type TableName,
  tableNames,
  type TableProgram,
  targetOf,
  withoutLateMarks,
  isProvided,
} from '@sluice/netfilter';

import type { Kernel } from '../../ports/kernel.ts';
import {
  type OwnedNames,
  familiesOf,
  familyNames,
  mapTables,
  type NodeState,
  type Observed,
  type ObservedTable,
  tableOf,
} from '../../ports/node-state.ts';

/**
 * Which part of a kernel's tables is ours.
 *
 * Ours is what the journal says we made, never what a name looks like: chains whose names are in `owned` or in the desired state, and
 * the rules in built-in chains that lead into the chains from which all Services are reached. Everything else is foreign and
 * is neither read further nor written.
 */

/** Chains with names of kube-proxy or Sluice that are not in `owned`: made by kube-proxy or another Sluice. */
export function foreignProxyChains(observed: Observed, owned: OwnedNames): OwnedNames {
  return chainsNotOwned(observed, owned, (name) => isKubeProxyChain(name) || isTreeChain(name));
}

/** Chains with names of layout `tree` that are not in `owned`. */
export function foreignSluiceChains(observed: Observed, owned: OwnedNames): OwnedNames {
  return chainsNotOwned(observed, owned, isTreeChain);
}

function chainsNotOwned(observed: Observed, owned: OwnedNames, isSuspect: (name: string) => boolean): OwnedNames {
  const found: { [F in Family]?: Record<TableName, readonly string[]> } = {};
  for (const family of familyNames) {
    const tables = observed[family];
    if (!tables) continue;
    const names = (table: TableName): readonly string[] => {
      const own = new Set(owned[family]?.[table]);
      return [...tables[table].chains.keys()].filter((name) => isSuspect(name) && !own.has(name));
    };
    found[family] = { filter: names('filter'), nat: names('nat') };
  }
  return found;
}

/**
 * What serves Services on a node that has no rules of Sluice: no program; another one; or another one did, and its rules do not lead packets
 * any more, as after a flush.
 */
export type EarlierRules = 'none' | 'serving' | 'cut';

/**
 * Tells by the tables whether rules of kube-proxy lead packets. A flush of the tables of iptables leaves chains: an entry chain of table
 * nat without rules, or to which no built-in chain leads.
 */
export function earlierRules(observed: Observed): EarlierRules {
  if (countNames(foreignProxyChains(observed, {})) === 0) return 'none';
  const isCut = familyNames.some((family) => {
    const chains = observed[family]?.nat.chains ?? new Map<string, never>();
    const entries = [...chains].filter(([name]) => jumpedChains.has(name));
    const builtIn = [...chains.values()].filter((chain) => chain.builtIn);
    const led = new Set(builtIn.flatMap(({ rules }) => rules.map(targetOf)));
    return entries.some(([name, { rules }]) => rules.length === 0 || !led.has(name));
  });
  return isCut ? 'cut' : 'serving';
}

/** Our part of the kernel's tables. Chains shared with other programs count only if the desired state has them. */
export function ownState(
  observed: Observed,
  owned: OwnedNames,
  desired: Pick<NodeState, 'families'>,
): NodeState['families'] {
  const families = familyNames.filter((family) => observed[family] && (owned[family] ?? desired.families[family]));
  return mapTables(families, (family, table) =>
    ownTable(observed[family]?.[table], new Set(owned[family]?.[table]), tableOf(desired, family, table)),
  );
}

function ownTable(
  observedTable: ObservedTable | undefined,
  owned: ReadonlySet<string>,
  desired: TableProgram,
): TableProgram {
  const isOwn = (name: string): boolean => desired.chains.has(name) || (owned.has(name) && !sharedChains.has(name));
  const chains = new Map<string, readonly string[]>();
  const jumps: string[] = [];
  for (const [name, chain] of observedTable?.chains ?? []) {
    if (chain.builtIn)
      addAll(
        jumps,
        chain.rules.filter((rule) => isOwnJump(rule, isOwn)),
      );
    else if (isOwn(name)) chains.set(name, chain.rules);
  }
  return { chains, jumps };
}

/** A rule of a built-in chain that leads into one of our entry chains, or into a shared chain that the desired state has. */
function isOwnJump(rule: string, isOwn: (name: string) => boolean): boolean {
  const target = targetOf(rule);
  if (target === undefined || !isOwn(target)) return false;
  return jumpedChains.has(target) || sharedChains.has(target) || isTreeChain(target) || isProvided(target);
}

/** A state without the rules that the kernel does not know. */
export function asKnown(state: NodeState, { knowsBpf }: Pick<Kernel, 'knowsBpf'>): NodeState {
  if (knowsBpf) return state;
  const families = mapTables(familiesOf(state), (family, table) => withoutLateMarks(tableOf(state, family, table)));
  return { ...state, families };
}

/**
 * The rules of a kube-proxy without the match that counts packets in an object of the kernel (`-m nfacct`). It matches every packet, and
 * kube-proxy makes the object: after a boot, without kube-proxy, no rule with it can be loaded.
 */
export function withoutCounters<S extends Pick<NodeState, 'families'>>(state: S): S {
  const families = mapTables(familiesOf(state), (family, table) => {
    const { chains, jumps } = tableOf(state, family, table);
    const counting = [...chains].filter(([, rules]) => rules.some((rule) => counter.test(rule)));
    const plain = counting.map(([name, rules]) => [name, rules.map((rule) => rule.replace(counter, ''))] as const);
    return plain.length === 0 ? { chains, jumps } : { chains: Layered.of(chains).with(plain), jumps };
  });
  return { ...state, families };
}

const counter = / -m nfacct --nfacct-name +\S+/;

/**
 * The desired state as this kernel can have it:
 * - a chain shared with other programs keeps their rules and gets ours after them;
 * - a chain of ours that a foreign rule jumps to stays unchanged if the desired state lacks it: the kernel would refuse to delete it,
 *   and emptying it would change the effect of the foreign rule. (CNI plugins refer to KUBE-MARK-MASQ.)
 * - a kernel that lost `-m bpf` since the desired state was linked does without the rules that use it: pods then do not reach themselves
 *   through Services, but all other traffic is served.
 */
export function adaptDesired(
  desired: NodeState,
  observed: Observed,
  owned: OwnedNames,
  { knowsBpf }: Pick<Kernel, 'knowsBpf'>,
): NodeState {
  const families = familyNames.filter((family) => desired.families[family] ?? (observed[family] && owned[family]));
  const adapted = mapTables(families, (family, table) => {
    const linked = tableOf(desired, family, table);
    const program = knowsBpf ? linked : withoutLateMarks(linked);
    const observedTable = observed[family]?.[table];
    if (!observedTable) return program;
    const kept = [...sharedChains].flatMap((name) => withForeignRules(name, program, observedTable));
    const pinnedChains = [...pinned(observedTable, new Set(owned[family]?.[table]), program)].map(
      (name) => [name, observedTable.chains.get(name)?.rules ?? []] as const,
    );
    const extra = [...kept, ...pinnedChains];
    return extra.length === 0 ? program : { chains: Layered.of(program.chains).with(extra), jumps: program.jumps };
  });
  return { ...desired, families: adapted };
}

function withForeignRules(
  name: string,
  program: TableProgram,
  observedTable: ObservedTable,
): readonly (readonly [string, readonly string[]])[] {
  const ours = program.chains.get(name);
  const theirs = observedTable.chains.get(name)?.rules;
  if (!ours || !theirs) return [];
  const known = new Set(theirs.map(canonicalRule));
  const rules = [...theirs, ...ours.filter((rule) => !known.has(canonicalRule(rule)))];
  const isSame =
    rules.length === ours.length && rules.every((rule, at) => canonicalRule(rule) === canonicalRule(ours[at] ?? ''));
  return isSame ? [] : [[name, rules]];
}

/** Chains of ours that the desired state lacks and that foreign rules lead to, with all chains below them. */
function pinned(observedTable: ObservedTable, owned: ReadonlySet<string>, desired: TableProgram): ReadonlySet<string> {
  const leaving = (name: string): boolean => owned.has(name) && !desired.chains.has(name) && !sharedChains.has(name);
  const found = new Set<string>();
  const follow = (rules: readonly string[]): void => {
    for (const rule of rules) {
      const target = targetOf(rule);
      if (target === undefined || !leaving(target) || found.has(target)) continue;
      found.add(target);
      follow(observedTable.chains.get(target)?.rules ?? []);
    }
  };
  for (const [name, chain] of observedTable.chains) {
    if (owned.has(name) || desired.chains.has(name)) continue;
    follow(chain.builtIn ? chain.rules.filter((rule) => !isOwnJump(rule, (to) => owned.has(to))) : chain.rules);
  }
  return found;
}

/** How many chains are named. */
export function countNames(names: OwnedNames): number {
  return familyNames.reduce(
    (sum, family) => sum + tableNames.reduce((n, t) => n + (names[family]?.[t].length ?? 0), 0),
    0,
  );
}
