import {
  differing,
  type Family,
  type FamilyProgram,
  Layered,
  sameLines,
  type TableName,
  type TableProgram,
  tableNames,
} from '@sluice/netfilter';
import * as v from 'valibot';
import { limits } from '../limits.ts';
import { familiesOf, familyNames, type NodeState } from '../ports/node-state.ts';

/**
 * A state as the difference from another stored one: a change of endpoints or of a Service changes about ten chains of 60,000, and one small
 * object is written faster than the groups that hold them.
 */
const change = v.strictObject({
  write: v.array(v.tuple([v.string(), v.array(v.string())])),
  drop: v.array(v.string()),
});
const tables = v.strictObject({ filter: change, nat: change });
export const deltaForm = v.strictObject({
  schema: v.literal(3),
  /** The digest of the manifest that it differs from. */
  base: v.string(),
  /** The number of deltas from a whole manifest to this one, itself included. */
  depth: v.number(),
  families: v.strictObject({ ipv4: v.optional(tables), ipv6: v.optional(tables) }),
  /** Frontends of mode nftables, each with its lines. */
  nft: v.optional(change),
  /** The names of what Services have; in mode nftables alone, so that an older `sluiced` reads each delta of its modes. */
  services: v.optional(change),
});
export type Delta = v.InferOutput<typeof deltaForm>;
type ChainChange = v.InferOutput<typeof change>;

/** A state in the store. */
export interface StoredState {
  readonly digest: string;
  readonly state: NodeState;
}

/**
 * The difference from a stored state to another one.
 * @param depth of the stored one
 * @returns undefined where too much differs
 */
export function deltaOf(state: NodeState, base: StoredState, depth: number): Delta | undefined {
  if (!sameAround(base.state, state)) return undefined;
  const families: Delta['families'] = {};
  for (const family of familiesOf(state)) {
    const [from, to] = [base.state.families[family] as FamilyProgram, state.families[family] as FamilyProgram];
    if (from === to) continue;
    families[family] = {
      filter: changeOf(from.filter.chains, to.filter.chains),
      nat: changeOf(from.nat.chains, to.nat.chains),
    };
  }
  const services = servicesChange(base.state.services, state.services);
  if (services && !state.nft) return undefined;
  const ofServices = services ? { services } : {};
  const nft = base.state.nft && state.nft ? { nft: changeOf(base.state.nft.frontends, state.nft.frontends) } : {};
  const delta: Delta = { schema: 3, base: base.digest, depth: depth + 1, families, ...nft, ...ofServices };
  return unlessLarge(delta, limits.deltaChainsMax);
}

/** @returns undefined where more than so many chains, frontends and Services differ */
function unlessLarge(delta: Delta, most: number): Delta | undefined {
  const { families, nft, services } = delta;
  const tableChanges = Object.values(families).flatMap((one) => (one ? [one.filter, one.nat] : []));
  const changes = [...tableChanges, ...(nft ? [nft] : []), ...(services ? [services] : [])];
  return changes.reduce((sum, { write, drop }) => sum + write.length + drop.length, 0) > most ? undefined : delta;
}

/**
 * Merges consecutive deltas into one, from the base of the first to the state of the last.
 * @param row each based on the one before
 * @returns undefined where so much differs that the state should be stored whole
 */
export function mergeDeltas(row: readonly [Delta, ...Delta[]]): Delta | undefined {
  const families: Delta['families'] = {};
  for (const family of familyNames) {
    const changes = row.flatMap((delta) => delta.families[family] ?? []);
    if (changes.length === 0) continue;
    families[family] = {
      filter: mergeChanges(changes.map(({ filter }) => filter)),
      nat: mergeChanges(changes.map(({ nat }) => nat)),
    };
  }
  const merged = <K extends 'nft' | 'services'>(key: K): Partial<Record<K, ChainChange>> => {
    const changes = row.flatMap((delta) => delta[key] ?? []);
    return changes.length === 0 ? {} : ({ [key]: mergeChanges(changes) } as Record<K, ChainChange>);
  };
  const delta: Delta = { schema: 3, base: row[0].base, depth: 1, families, ...merged('nft'), ...merged('services') };
  return unlessLarge(delta, limits.mergedChainsMax);
}

function mergeChanges(row: readonly ChainChange[]): ChainChange {
  const write = new Map<string, string[]>();
  const drop = new Set<string>();
  for (const one of row) {
    for (const name of one.drop) {
      write.delete(name);
      drop.add(name);
    }
    for (const [name, rules] of one.write) {
      drop.delete(name);
      write.set(name, rules);
    }
  }
  return { write: [...write], drop: [...drop] };
}

/** Whether everything except chains, frontends and the names of Services is equal. */
function sameAround(a: NodeState, b: NodeState): boolean {
  const jumps = (state: NodeState): unknown =>
    familyNames.map(
      (family) => state.families[family] && tableNames.map((table) => state.families[family]?.[table].jumps),
    );
  const around = (state: NodeState): string =>
    JSON.stringify([
      jumps(state),
      [...state.sysctls],
      state.conntrackHashSize ?? null,
      state.endpointRanges ?? null,
      state.nft?.settings ?? null,
    ]);
  const knowServices = (a.services === undefined) === (b.services === undefined);
  return a.ipvs === b.ipvs && knowServices && around(a) === around(b);
}

/** @returns undefined where nothing differs */
function servicesChange(from: NodeState['services'], to: NodeState['services']): ChainChange | undefined {
  const found = from && to && changeOf(from, to);
  return found && found.write.length + found.drop.length > 0 ? found : undefined;
}

function changeOf(from: TableProgram['chains'], to: TableProgram['chains']): ChainChange {
  const write: ChainChange['write'] = [];
  const drop: string[] = [];
  for (const name of differing(from, to)) {
    const rules = to.get(name);
    if (!rules) drop.push(name);
    else if (!sameLines(rules, from.get(name))) write.push([name, [...rules]]);
  }
  return { write, drop };
}

/** The state that a delta leads to. */
export function applyDelta(base: NodeState, { families, nft, services }: Delta): NodeState {
  const programs: { -readonly [F in Family]?: FamilyProgram } = { ...base.families };
  for (const family of familyNames) {
    const [own, changes] = [programs[family], families[family]];
    if (!own || !changes) continue;
    const table = (name: TableName): TableProgram => ({
      chains: changed(own[name].chains, changes[name]),
      jumps: own[name].jumps,
    });
    programs[family] = { filter: table('filter'), nat: table('nat') };
  }
  const frontends = base.nft && nft ? changed(base.nft.frontends, nft) : undefined;
  return {
    ...base,
    families: programs,
    ...(base.nft && frontends ? { nft: { ...base.nft, frontends } } : {}),
    ...(base.services && services ? { services: changed(base.services, services) } : {}),
  };
}

function changed(chains: TableProgram['chains'], { write, drop }: ChainChange): TableProgram['chains'] {
  return Layered.of(chains).with([...drop.map((name) => [name, undefined] as const), ...write]);
}
