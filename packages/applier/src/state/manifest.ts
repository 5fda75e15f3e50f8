import {
  addAll,
  compareText,
  differing,
  type Family,
  type FamilyProgram,
  inOnePiece,
  type SysctlKey,
  sysctlKeys,
  type TableName,
  type TableProgram,
  tableNames,
  withNewestTable,
} from '@sluice/netfilter';
import * as v from 'valibot';
import { type IpvsText, ipvsFromText, ipvsToText } from '../ports/ipvs/text.ts';
import { limits } from '../limits.ts';
import { familiesOf, familyNames, type NodeState } from '../ports/node-state.ts';
import { applyDelta, type Delta, deltaForm, deltaOf, mergeDeltas, type StoredState } from './delta.ts';
import type { Texts } from './store.ts';

/**
 * What a generation put into the kernel, as one small text: its jumps and sysctls, and the digests of the objects that hold its chains. Two
 * programs that share most chains share most objects.
 */
const table = v.strictObject({ objects: v.array(v.string()), jumps: v.array(v.string()) });
const family = v.strictObject({ filter: table, nat: table });
const manifest = v.strictObject({
  schema: v.literal(2),
  families: v.strictObject({ ipv4: v.optional(family), ipv6: v.optional(family) }),
  sysctls: v.record(v.picklist(sysctlKeys), v.number()),
  conntrackHashSize: v.optional(v.number()),
  endpointRanges: v.optional(v.array(v.string())),
  ipvs: v.optional(
    v.strictObject({
      ipset: v.string(),
      ipvs: v.string(),
      addresses: v.array(v.string()),
      excludeCIDRs: v.array(v.string()),
    }),
  ),
  /** Mode nftables: frontends are stored like chains, and so are Services with the names of what they have. */
  nft: v.optional(v.strictObject({ settings: v.array(v.string()), objects: v.array(v.string()) })),
  services: v.optional(v.array(v.string())),
});
type StateManifest = v.InferOutput<typeof manifest>;
type TableManifest = v.InferOutput<typeof table>;

/** Chains per object; a program of 60,000 chains has 256 objects. */
const chainsPerObject = 256;
const objectsMax = 256;

/** The last stored tables: an object with the same chains is not printed again. */
export type ManifestMemory = Map<string, WrittenTable>;

interface WrittenTable {
  readonly chains: TableProgram['chains'];
  /** Of its objects. */
  readonly digests: readonly string[];
  /** The names of the chains in each object. */
  readonly names: readonly ReadonlySet<string>[];
}

/**
 * Whether a state is so large that generations share most of its objects: then a release, too, is stored as the difference from the one
 * before. A smaller state is stored whole, so that an object which is lost with its copy costs one generation alone.
 */
export function sharesObjects({ families, nft }: NodeState): boolean {
  const tables = familyNames.flatMap((name) => tableNames.map((one) => families[name]?.[one].chains.size ?? 0));
  return tables.reduce((sum, size) => sum + size, nft?.frontends.size ?? 0) > chainsPerObject;
}

/**
 * Stores a state, all of which is on the disk when it returns, unless the texts wait for `sync`.
 * @param base a stored state to store the difference from, if that is small
 * @returns the digest of its manifest
 */
export function putState(state: NodeState, store: Texts, memory: ManifestMemory, base?: StoredState): string {
  const delta = base && deltaTo(state, base, store);
  if (delta) return store.put([JSON.stringify(delta)])[0] as string;
  const families: { -readonly [F in Family]?: Record<TableName, TableManifest> } = {};
  for (const name of familiesOf(state)) {
    const program = state.families[name] as FamilyProgram;
    const tableOf = (one: TableName): TableManifest => ({
      objects: putChains(`${name} ${one}`, program[one].chains, store, memory),
      jumps: [...program[one].jumps],
    });
    families[name] = { filter: tableOf('filter'), nat: tableOf('nat') };
  }
  const { sysctls, conntrackHashSize, ipvs, nft, services, endpointRanges } = state;
  const size = conntrackHashSize === undefined ? {} : { conntrackHashSize };
  const virtual = ipvs ? { ipvs: mutable(ipvsToText(ipvs)) } : {};
  const text: StateManifest = {
    schema: 2,
    families,
    sysctls: Object.fromEntries(sysctls) as StateManifest['sysctls'],
    ...size,
    ...(endpointRanges ? { endpointRanges: [...endpointRanges] } : {}),
    ...virtual,
    ...(nft ? { nft: { settings: [...nft.settings], objects: putChains('nft', nft.frontends, store, memory) } } : {}),
    ...(services ? { services: putChains('services', services, store, memory) } : {}),
  };
  return store.put([JSON.stringify(text)])[0] as string;
}

/** @returns undefined where the store has neither a delta nor a whole manifest of this digest */
function readStored(digest: string, store: Texts): Delta | StateManifest | undefined {
  const text = store.get(digest);
  const value: unknown = text === undefined ? undefined : JSON.parse(text);
  const delta = v.safeParse(deltaForm, value);
  if (delta.success) return delta.output;
  const whole = v.safeParse(manifest, value);
  return whole.success ? whole.output : undefined;
}

/** The delta from a stored state; when its row of deltas is long, merged into one from the whole state at its beginning. */
function deltaTo(state: NodeState, base: StoredState, store: Texts): Delta | undefined {
  const below = readStored(base.digest, store);
  if (!below) return undefined;
  const depth = 'depth' in below ? below.depth : 0;
  const delta = deltaOf(state, base, depth);
  if (!delta || depth < limits.deltasMax) return delta;
  const row = rowOf(base.digest, store);
  const [first, ...others] = row ?? [];
  return first && mergeDeltas([first, ...others, delta]);
}

/** The deltas from a whole state up to this one; undefined where one of them cannot be read. */
function rowOf(digest: string, store: Texts): readonly Delta[] | undefined {
  const row: Delta[] = [];
  for (let at = digest; ; ) {
    const stored = readStored(at, store);
    if (!stored) return undefined;
    if (!('depth' in stored)) return row;
    row.unshift(stored);
    at = stored.base;
  }
}

function mutable({ ipset, ipvs, addresses, excludeCIDRs }: IpvsText): NonNullable<StateManifest['ipvs']> {
  return { ipset, ipvs, addresses: [...addresses], excludeCIDRs: [...excludeCIDRs] };
}

function putChains(key: string, chains: TableProgram['chains'], store: Texts, memory: ManifestMemory): string[] {
  let count = 1;
  while (count < objectsMax && count * chainsPerObject < chains.size) count *= 2;
  const last = memory.get(key);
  const before = last?.names.length === count ? last : undefined;
  const names = [...(before?.names ?? Array.from({ length: count }, () => new Set<string>()))];
  const changed = regroup(names, before ? differing(before.chains, chains) : chains.keys(), chains);
  const numbers = names.flatMap((_names, at) => {
    const isWritten = before && !changed.has(at) && store.has(before.digests[at] as string);
    return isWritten ? [] : [at];
  });
  const digests = [...(before?.digests ?? [])];
  const written = store.put(numbers.map((at) => printBucket(names[at] as ReadonlySet<string>, chains)));
  for (const [index, at] of numbers.entries()) digests[at] = written[index] as string;
  memory.set(key, { chains, digests, names });
  return digests;
}

/**
 * Puts names into their groups, by the names without a tag, so that a changed chain stays in its group.
 * @param groups those that change are replaced
 * @param changed the names of chains that came, went or changed
 * @returns the numbers of their groups
 */
function regroup(
  groups: ReadonlySet<string>[],
  changed: Iterable<string>,
  chains: TableProgram['chains'],
): ReadonlySet<number> {
  const replaced = new Map<number, Set<string>>();
  for (const name of changed) {
    const number = bucketOf(name, groups.length);
    const own = replaced.get(number) ?? new Set(groups[number]);
    replaced.set(number, own);
    if (chains.has(name)) own.add(name);
    else own.delete(name);
  }
  for (const [number, own] of replaced) groups[number] = own;
  return new Set(replaced.keys());
}

const bucketOf = (name: string, count: number): number => (count === 1 ? 0 : numberOf(name) % count);

/** FNV-1a of a name up to its tag. */
function numberOf(name: string): number {
  const end = name.lastIndexOf('.');
  let sum = 0x811c9dc5;
  for (let at = 0; at < (end < 0 ? name.length : end); at++) sum = Math.imul(sum ^ name.charCodeAt(at), 0x01000193);
  return sum >>> 0;
}

/** `:CHAIN` and its rules, for each chain by its name: in which order they came is not told by a digest. */
function printBucket(names: ReadonlySet<string>, chains: TableProgram['chains']): string {
  const rulesOf = (name: string): string => (chains.get(name) ?? []).map((rule) => `${rule}\n`).join('');
  return [...names]
    .toSorted(compareText)
    .map((name) => `:${name}\n${rulesOf(name)}`)
    .join('');
}

/**
 * Reads a state.
 * @returns undefined when the manifest or one of its objects is missing or damaged
 */
export function getState(digest: string, store: Texts): NodeState | undefined {
  const stored = readStored(digest, store);
  if (!stored) return undefined;
  if ('depth' in stored) {
    const base = getState(stored.base, store);
    return base && applyDelta(base, stored);
  }
  const { families, sysctls, conntrackHashSize, endpointRanges, ipvs, nft } = stored;
  const programs: { -readonly [F in Family]?: FamilyProgram } = {};
  for (const name of ['ipv4', 'ipv6'] as const) {
    const one = families[name];
    if (!one) continue;
    const [filter, nat] = tableNames.map((each) => readTable(one[each], store));
    if (!filter || !nat) return undefined;
    programs[name] = { filter, nat };
  }
  const virtual = ipvs && ipvsFromText(ipvs);
  if (typeof virtual === 'string') return undefined;
  const frontends = nft && readChains(nft.objects, store);
  const services = stored.services && readChains(stored.services, store);
  if ((nft && !frontends) || (stored.services && !services)) return undefined;
  return {
    families: programs,
    sysctls: new Map(Object.entries(sysctls) as [SysctlKey, number][]),
    ...(conntrackHashSize === undefined ? {} : { conntrackHashSize }),
    ...(virtual ? { ipvs: virtual } : {}),
    ...(nft && frontends ? { nft: { settings: withNewestTable(nft.settings), frontends } } : {}),
    ...(services ? { services } : {}),
    ...(endpointRanges ? { endpointRanges } : {}),
  };
}

function readTable({ objects, jumps }: TableManifest, store: Texts): TableProgram | undefined {
  const chains = readChains(objects, store);
  return chains && { chains, jumps };
}

function readChains(objects: readonly string[], store: Texts): TableProgram['chains'] | undefined {
  const chains = new Map<string, string[]>();
  for (const digest of objects) {
    const text = store.get(digest);
    if (text === undefined) return undefined;
    let open: string[] = [];
    for (const line of text.split('\n')) {
      if (line.startsWith(':')) chains.set(inOnePiece(line.slice(1)), (open = []));
      else if (line !== '') open.push(inOnePiece(line));
    }
  }
  return chains;
}

/** Whether a text of the store is a manifest, whole or a delta, judging by its beginning. */
export function isManifest(text: string | undefined): boolean {
  return text !== undefined && /^\{"schema":[23],/.test(text);
}

/** What a manifest names: chains, and the manifest that a delta differs from. */
interface Named {
  readonly base?: string;
  readonly objects: readonly string[];
}

/** By the digests of manifests: each is read once, as no text changes under its digest. */
export type NamedMemory = Map<string, Named>;

/** The digests that manifests need, their own included; of one that cannot be read its own alone. @param memory is kept for the next call */
export function neededObjects(manifests: Iterable<string>, store: Texts, memory: NamedMemory): ReadonlySet<string> {
  const needed = new Set<string>();
  const objects: string[] = [];
  for (const first of manifests) {
    for (let at: string | undefined = first; at !== undefined && !needed.has(at); ) {
      needed.add(at);
      const named: Named | undefined = memory.get(at) ?? namedBy(readStored(at, store));
      if (named) memory.set(at, named);
      addAll(objects, named?.objects ?? []);
      at = named?.base;
    }
  }
  for (const digest of objects) needed.add(digest);
  return needed;
}

function namedBy(stored: Delta | StateManifest | undefined): Named | undefined {
  if (!stored) return undefined;
  if ('depth' in stored) return { base: stored.base, objects: [] };
  const { families, nft, services = [] } = stored;
  const tables = Object.values(families).flatMap((one) => (one ? [one.filter, one.nat] : []));
  return { objects: [...tables.flatMap((one) => one.objects), ...(nft?.objects ?? []), ...services] };
}
