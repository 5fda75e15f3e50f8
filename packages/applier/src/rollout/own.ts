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
} from '@sluice/bundle';
import { ipvsNames } from '../ipvs/values.ts';
import type { Kernel } from './ports.ts';
import {
  type ChainNames,
  familiesOf,
  familyNames,
  mapTables,
  type NodeState,
  type Observed,
  type ObservedTable,
  tableOf,
} from './state.ts';

/**
 * Which part of a kernel's tables is ours.
 *
 * Ours is what the journal says we made, never what a name looks like: chains whose names are in `owned` or in the desired state, and
 * the rules in built-in chains that lead into the chains from which all Services are reached. Everything else is foreign and
 * is neither read further nor written.
 */

/** Chains with kube-proxy's names or with Sluice's that we did not make, by family and table: of kube-proxy or another Sluice. */
export function strangers(observed: Observed, owned: ChainNames): ChainNames {
  return foreignChains(observed, owned, (name) => isKubeProxyChain(name) || isTreeChain(name));
}

/** Chains that look as if Sluice made them in layout `tree`, and the journal does not know them. */
export function otherSluice(observed: Observed, owned: ChainNames): ChainNames {
  return foreignChains(observed, owned, isTreeChain);
}

function foreignChains(observed: Observed, owned: ChainNames, isSuspect: (name: string) => boolean): ChainNames {
  const found: { [F in Family]?: Record<TableName, readonly string[]> } = {};
  for (const family of familyNames) {
    const seen = observed[family];
    if (!seen) continue;
    const names = (table: TableName): readonly string[] => {
      const own = new Set(owned[family]?.[table]);
      return [...seen[table].chains.keys()].filter((name) => isSuspect(name) && !own.has(name));
    };
    found[family] = { filter: names('filter'), nat: names('nat') };
  }
  return found;
}

/** What of the kernel's tables is ours, seen with a desired state in mind: chains that others share count only where the desired state has them. */
export function ownState(
  observed: Observed,
  owned: ChainNames,
  desired: Pick<NodeState, 'families'>,
): NodeState['families'] {
  const families = familyNames.filter((family) => observed[family] && (owned[family] ?? desired.families[family]));
  return mapTables(families, (family, table) =>
    ownTable(observed[family]?.[table], new Set(owned[family]?.[table]), tableOf(desired, family, table)),
  );
}

function ownTable(seen: ObservedTable | undefined, owned: ReadonlySet<string>, desired: TableProgram): TableProgram {
  const isOwn = (name: string): boolean => desired.chains.has(name) || (owned.has(name) && !sharedChains.has(name));
  const chains = new Map<string, readonly string[]>();
  const jumps: string[] = [];
  for (const [name, chain] of seen?.chains ?? []) {
    if (chain.builtIn)
      addAll(
        jumps,
        chain.rules.filter((rule) => isOwnJump(rule, isOwn)),
      );
    else if (isOwn(name)) chains.set(name, chain.rules);
  }
  return { chains, jumps };
}

/** What layout `tree` provides under kube-proxy's names, reached from built-in chains too. */
const providedChains: ReadonlySet<string> = new Set(['KUBE-MARK-MASQ', 'KUBE-POSTROUTING']);

/** A rule of a built-in chain that leads into one of our entry chains, or into a shared chain that the desired state has. */
function isOwnJump(rule: string, isOwn: (name: string) => boolean): boolean {
  const target = targetOf(rule);
  if (target === undefined || !isOwn(target)) return false;
  return jumpedChains.has(target) || sharedChains.has(target) || isTreeChain(target) || providedChains.has(target);
}

/** A state without the rules that the kernel does not know. */
export function asKnown(state: NodeState, { knowsBpf }: Pick<Kernel, 'knowsBpf'>): NodeState {
  if (knowsBpf) return state;
  const families = mapTables(familiesOf(state), (family, table) => withoutLateMarks(tableOf(state, family, table)));
  return { ...state, families };
}

/**
 * The desired state as this kernel can have it:
 * - a chain that others share keeps their rules and gets ours behind them;
 * - a chain of ours that a foreign rule jumps to stays as it is when the desired state lacks it: the kernel would refuse to delete it,
 *   and emptying it would change what the foreign rule does. (CNI plugins refer to KUBE-MARK-MASQ.)
 * - a kernel that lost `-m bpf` since the desired state was linked does without the rules that ask for it: pods do not reach themselves by
 *   Services. Without its rules the node would serve nobody.
 */
export function adaptDesired(
  desired: NodeState,
  observed: Observed,
  owned: ChainNames,
  { knowsBpf }: Pick<Kernel, 'knowsBpf'>,
): NodeState {
  const families = familyNames.filter((family) => desired.families[family] ?? (observed[family] && owned[family]));
  const adapted = mapTables(families, (family, table) => {
    const linked = tableOf(desired, family, table);
    const wanted = knowsBpf ? linked : withoutLateMarks(linked);
    const seen = observed[family]?.[table];
    if (!seen) return wanted;
    const kept = [...sharedChains].flatMap((name) => withOthersRules(name, wanted, seen));
    const others = [...pinned(seen, new Set(owned[family]?.[table]), wanted)].map(
      (name) => [name, seen.chains.get(name)?.rules ?? []] as const,
    );
    const extra = [...kept, ...others];
    return extra.length === 0 ? wanted : { chains: Layered.of(wanted.chains).with(extra), jumps: wanted.jumps };
  });
  return { ...desired, families: adapted };
}

function withOthersRules(
  name: string,
  wanted: TableProgram,
  seen: ObservedTable,
): readonly (readonly [string, readonly string[]])[] {
  const ours = wanted.chains.get(name);
  const theirs = seen.chains.get(name)?.rules;
  if (!ours || !theirs) return [];
  const known = new Set(theirs.map(canonicalRule));
  const rules = [...theirs, ...ours.filter((rule) => !known.has(canonicalRule(rule)))];
  const isSame =
    rules.length === ours.length && rules.every((rule, at) => canonicalRule(rule) === canonicalRule(ours[at] ?? ''));
  return isSame ? [] : [[name, rules]];
}

/** Chains of ours that the desired state lacks and that foreign rules lead to, with what these need in turn. */
function pinned(seen: ObservedTable, owned: ReadonlySet<string>, desired: TableProgram): ReadonlySet<string> {
  const leaving = (name: string): boolean => owned.has(name) && !desired.chains.has(name) && !sharedChains.has(name);
  const found = new Set<string>();
  const follow = (rules: readonly string[]): void => {
    for (const rule of rules) {
      const target = targetOf(rule);
      if (target === undefined || !leaving(target) || found.has(target)) continue;
      found.add(target);
      follow(seen.chains.get(target)?.rules ?? []);
    }
  };
  for (const [name, chain] of seen.chains) {
    if (owned.has(name) || desired.chains.has(name)) continue;
    follow(chain.builtIn ? chain.rules.filter((rule) => !isOwnJump(rule, (to) => owned.has(to))) : chain.rules);
  }
  return found;
}

/** How many chains are named. */
export function countNames(names: ChainNames): number {
  return familyNames.reduce(
    (sum, family) => sum + tableNames.reduce((n, t) => n + (names[family]?.[t].length ?? 0), 0),
    0,
  );
}

/** Chains of `state` that are not among `known`. */
export function newNames(state: NodeState, known: ChainNames): ChainNames {
  const fresh: { [F in Family]?: Record<TableName, readonly string[]> } = {};
  for (const family of familiesOf(state)) {
    const names = (table: TableName): readonly string[] => {
      const old = new Set(known[family]?.[table]);
      return [...tableOf(state, family, table).chains.keys()].filter((name) => !old.has(name));
    };
    fresh[family] = { filter: names('filter'), nat: names('nat') };
  }
  // All of them: what stood before is in the generation too, and what both name counts once.
  return state.ipvs ? { ...fresh, ipvs: ipvsNames(state.ipvs) } : fresh;
}
