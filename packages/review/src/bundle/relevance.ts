import { type BundleFiles, ruleFiles } from '@sluice/bundle';
import { appendTo, type Family, getOrInsert, type Mode, modeFacts } from '@sluice/netfilter';
import type { Memory } from './memory.ts';
import { matchReaders } from './planes.ts';
import type { FileMatches } from './matches.ts';
import { mayMeet, type DestinationQuery, type TextMatches } from './text-matches.ts';
import { toolAt } from './tools.ts';

/** An index of the Service files of one profile and family by the destinations that they match. */
export interface MatchIndex {
  /** In the order of loading. */
  readonly paths: readonly string[];
  matches(path: string): FileMatches;
  /** The addresses that rules name as destinations. */
  readonly addresses: ReadonlySet<string>;
  /** The files whose rules, entries or virtual servers name an address as the destination. */
  naming(address: string): readonly string[];
  /**
   * The files whose rules a packet to this destination can match, before or after translation, in the order of loading. Without
   * the others the packet is treated the same.
   * @param exact `tcp 10.96.0.10 80`
   */
  relevant(exact: string): readonly string[];
  /** The files that translate to a destination (`tcp 10.244.1.5 8080`, or `tcp 8080` for every address). */
  translatingTo(key: string): readonly string[];
}

/** Reads what every Service file of a profile matches. */
export function indexMatches(
  files: BundleFiles,
  profile: string,
  mode: Mode,
  family: Family,
  memory: Memory,
): MatchIndex {
  const paths = servicePaths(files, profile, mode, family);
  const order = new Map(paths.map((path, at) => [path, at]));
  const byKey = new Map<string, string[]>();
  const byTarget = new Map<string, string[]>();
  const byBound = new Map<string, string[]>();
  const wide: string[] = [];
  const byAddress = new Map<string, Set<string>>();
  const name = (address: string, path: string): void => {
    byAddress.set(address, (byAddress.get(address) ?? new Set<string>()).add(path));
  };
  const byPath = new Map<string, FileMatches>();
  const matches = (path: string): FileMatches =>
    byPath.get(path) ?? memory.matches(path, files.get(path) ?? '', family);
  for (const path of paths) {
    const own = matches(path);
    byPath.set(path, own);
    const { exact, ports, wide: rules, targets, bound, inner } = own;
    for (const key of exact) {
      appendTo(byKey, key, path);
      name(addressIn(key), path);
    }
    for (const key of ports) appendTo(byKey, key, path);
    for (const key of inner) appendTo(byKey, key, path);
    for (const address of bound) {
      appendTo(byBound, address, path);
      name(address, path);
    }
    for (const key of targets) appendTo(byTarget, key, path);
    if (rules.length > 0) wide.push(path);
  }
  const meeting = (key: string): readonly string[] => [
    ...wide,
    ...(byKey.get(key) ?? []),
    ...(byKey.get(withoutAddress(key)) ?? []),
    ...(byBound.get(addressIn(key)) ?? []),
  ];
  const inOrder = (some: ReadonlySet<string>): readonly string[] =>
    some.size < 2 ? [...some] : [...some].toSorted((a, b) => order.get(a)! - order.get(b)!);
  /** A file, and those that packets which it translates can match: the same for all of its destinations. */
  const beyond = new Map<string, ReadonlySet<string>>();
  const withBeyond = (path: string): ReadonlySet<string> =>
    getOrInsert(beyond, path, () => new Set([path, ...[...matches(path).targets].filter(isWhole).flatMap(meeting)]));
  return {
    paths,
    matches,
    addresses: new Set(byAddress.keys()),
    naming: (address) => [...(byAddress.get(address) ?? [])],
    translatingTo: (key) => byTarget.get(key) ?? [],
    relevant(exact) {
      return inOrder(new Set(meeting(exact).flatMap((path) => [...withBeyond(path)])));
    },
  };
}

function servicePaths(files: BundleFiles, profile: string, mode: Mode, family: Family): readonly string[] {
  return modeFacts[mode]
    .tools(family)
    .flatMap((tool) => ruleFiles(files, profile, tool))
    .filter((path) => path.startsWith(`profiles/${profile}/services/`));
}

/**
 * The result of `indexMatches(…).relevant(exact)` for one destination, without an index of all files: only files whose text may name
 * the destination are parsed, then those that may name a target of its translation.
 */
export function relevantTo(
  exact: string,
  files: BundleFiles,
  profile: string,
  mode: Mode,
  family: Family,
  memory: Memory,
): readonly string[] {
  const all = servicePaths(files, profile, mode, family).map((path) => {
    const text = files.get(path)!;
    return { path, matches: textMatchesOf(path, text) };
  });
  const index = (keys: readonly string[]): MatchIndex => {
    const wanted = wantedBy([exact, ...keys]);
    const some = all.flatMap(({ path, matches }) =>
      mayMeet(matches, wanted) ? [[path, files.get(path)!] as const] : [],
    );
    return indexMatches(new Map(some), profile, mode, family, memory);
  };
  const first = index([]);
  const targets = first.relevant(exact).flatMap((path) => [...first.matches(path).targets].filter(isWhole));
  return targets.length === 0 ? first.relevant(exact) : index(targets).relevant(exact);
}

const textMatchesOf = (path: string, text: string): TextMatches => matchReaders[toolAt(path).tool].fast(text);

function wantedBy(keys: readonly string[]): DestinationQuery {
  return {
    addresses: new Set(keys.map(addressIn)),
    ports: new Set(keys.map((key) => Number(key.slice(key.lastIndexOf(' ') + 1)))),
  };
}

/** `tcp 80` of `tcp 10.96.0.10 80`. */
function withoutAddress(key: string): string {
  return `${key.slice(0, key.indexOf(' '))} ${key.slice(key.lastIndexOf(' ') + 1)}`;
}

/** `10.96.0.10` of `tcp 10.96.0.10 80`. */
const addressIn = (key: string): string => key.slice(key.indexOf(' ') + 1, key.lastIndexOf(' '));

const isWhole = (key: string): boolean => key.indexOf(' ') !== key.lastIndexOf(' ');
