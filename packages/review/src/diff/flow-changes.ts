import { families, addAll, addressOfEndpoint, compareText, type Family, modeFacts } from '@sluice/netfilter';
import { baseFile, nodeFile, profileFile } from '@sluice/bundle';
import { commonDestinations, destinationsOf, keyOf } from '../flows/destinations.ts';
import type { Destination, FlowDifference, FlowOutcome, FlowSource } from '../flows/flow.ts';
import { compareRows, flowRows, type FlowRow } from '../flows/flows.ts';
import type { FileMatches } from '../bundle/matches.ts';
import type { MatchIndex } from '../bundle/relevance.ts';
import { equivalentDestinations } from '../flows/shapes.ts';
import { hasFamily, type BundleView } from '../bundle/view.ts';

/** A changed flow, and the other sources with the same change. */
export interface ChangedFlow extends FlowDifference {
  readonly alsoFrom: readonly FlowSource[];
}

/**
 * The flows that two bundles treat differently, on nodes that both have. Only destinations that changed files can affect are traced.
 * @param changed the paths of files whose text differs
 */
export function changedFlows(
  before: BundleView,
  after: BundleView,
  changed: ReadonlySet<string>,
): readonly ChangedFlow[] {
  const found: FlowDifference[] = [];
  for (const [, names] of sharedNodes(before, after)) {
    const profiles = [before, after].map((view) => view.nodes.get(names[0]!)!.profile);
    for (const family of families) {
      if (!hasFamily(before, profiles[0]!, family) || !hasFamily(after, profiles[1]!, family)) continue;
      const pair: BundlePair = { views: [before, after], profiles, family, changed };
      const moved = isBaseChanged(pair) ? names : names.filter((name) => changed.has(nodeFile(name)));
      const rest = names.filter((name) => !moved.includes(name));
      for (const [nodes, destinations] of [
        [moved, moved.length > 0 ? allDestinations(pair) : []],
        [rest, rest.length > 0 ? affectedDestinations(pair) : []],
      ] as const) {
        if (destinations.length > 0) addAll(found, [...changesAmong(pair, nodes, destinations)]);
      }
    }
  }
  return foldFlows(found.toSorted(compareRows));
}

/** Traces one of each group of equivalent destinations, and the rest of a group only when that one changes. */
function* changesAmong(
  pair: BundlePair,
  nodes: readonly string[],
  destinations: readonly Destination[],
): Generator<FlowDifference> {
  const groups = equivalentDestinations(pair, destinations);
  const changed = new Set<Destination>();
  for (const change of changesOf(
    pair,
    nodes,
    groups.map(([first]) => first!),
  )) {
    changed.add(change.destination);
    yield change;
  }
  const others = groups.flatMap(([first, ...rest]) => (changed.has(first!) ? rest : []));
  if (others.length > 0) yield* changesOf(pair, nodes, others);
}

function* changesOf(
  pair: BundlePair,
  nodes: readonly string[],
  destinations: readonly Destination[],
): Generator<FlowDifference> {
  const { views, profiles, family } = pair;
  for (const row of flowRows(views, { profiles, family, destinations, nodes, withoutPlainEndpoints: true })) {
    const [old, updated] = row.outcomes as readonly [FlowOutcome, FlowOutcome];
    if (isOther(pair, old, updated)) yield changeOf(row, old, updated);
  }
}

interface BundlePair {
  readonly views: readonly [BundleView, BundleView];
  readonly profiles: readonly string[];
  readonly family: Family;
  readonly changed: ReadonlySet<string>;
}

/** Whether outcomes differ. The scheduler does not count between modes: it follows from the mode for every Service. */
function isOther({ views, profiles }: BundlePair, old: FlowOutcome, updated: FlowOutcome): boolean {
  const [before, after] = views.map((view, at) => view.profiles.get(profiles[at]!)!.mode);
  return before === after ? old.key !== updated.key : withoutScheduler(old) !== withoutScheduler(updated);
}

/** The key of an outcome without its last part, the scheduler. */
const withoutScheduler = ({ key, scheduler }: FlowOutcome): string =>
  scheduler === undefined ? key : key.slice(0, -`; scheduler ${scheduler}`.length);

/** Nodes of both bundles, by their two profiles. */
function sharedNodes(before: BundleView, after: BundleView): ReadonlyMap<string, readonly string[]> {
  const shared = [...after.nodes.keys()].filter((name) => before.nodes.has(name));
  return Map.groupBy(shared, (name) => `${before.nodes.get(name)!.profile} ${after.nodes.get(name)!.profile}`);
}

/** Whether the profile or its base files differ. */
function isBaseChanged({ views, profiles, family, changed }: BundlePair): boolean {
  const [old, updated] = profiles as [string, string];
  if (old !== updated) return true;
  const [tool] = modeFacts[views[0].profiles.get(old)!.mode].tools(family);
  return [profileFile(old), baseFile(old, 'first', tool), baseFile(old, 'last', tool)].some((path) =>
    changed.has(path),
  );
}

function allDestinations({ views, profiles, family }: BundlePair): readonly Destination[] {
  const sides = views.map((view, at) => view.index(profiles[at]!, family));
  const named = destinationsOf(
    family,
    sides.map((index) => ({ index, paths: index.paths })),
  );
  const known = new Set(named.map((one) => keyOf(one, one.address)));
  // Base files of either side may match destinations that the other side's do not.
  const common = new Map(
    views
      .flatMap((view, at) => commonDestinations(view, profiles[at]!, family))
      .map((one) => [keyOf(one, one.address), one] as const),
  );
  return [...named, ...[...common].flatMap(([key, one]) => (known.has(key) ? [] : [one]))];
}

/**
 * The destinations of changed files, and those whose packets a changed file matches after translation. A file with a rule that any
 * packet can match affects all destinations.
 */
function affectedDestinations(pair: BundlePair): readonly Destination[] {
  const { views, profiles, family, changed } = pair;
  const sides = views.map((view, at) => view.index(profiles[at]!, family));
  const own = sides.map((index) => index.paths.filter((path) => changed.has(path)));
  if (own.every((paths) => paths.length === 0)) return [];
  const matches = sides.flatMap((index, at) => own[at]!.map((path) => index.matches(path)));
  if (matches.some(({ wide }) => wide.length > 0)) return allDestinations(pair);
  return destinationsOf(
    family,
    sides.map((index, at) => ({ index, paths: new Set([...own[at]!, ...meeting(index, matches)]) })),
  );
}

/** Other files whose packets the changed files match too: after translation, or at addresses that nodes carry for both. */
function meeting(index: MatchIndex, matches: readonly FileMatches[]): readonly string[] {
  const keys = new Set(matches.flatMap(({ exact, ports, inner }) => [...exact, ...ports, ...inner]));
  const addresses = new Set(matches.flatMap(({ bound }) => [...bound]));
  return [
    ...[...keys].flatMap((key) => index.translatingTo(key)),
    ...[...addresses].flatMap((address) => index.naming(address)),
  ];
}

function changeOf({ outcomes: _outcomes, ...row }: FlowRow, old: FlowOutcome, updated: FlowOutcome): FlowDifference {
  return { ...row, old, new: updated };
}

/**
 * Merges flows with the same change. Hairpin flows of endpoints are left out when they change as those of every other pod do: that an
 * endpoint's connection to itself is masqueraded is not a change.
 */
function foldFlows(changes: readonly FlowDifference[]): readonly ChangedFlow[] {
  const places = Map.groupBy(changes, ({ nodes, family, destination }) =>
    JSON.stringify([nodes.profile, nodes.nodes[0], family, destination]),
  );
  const folded = [...places.values()].flatMap((rows) => {
    const common = rows.filter(({ source }) => source.class.startsWith('pod-'));
    const own = rows.filter(
      (row) => row.source.class !== 'endpoint' || !common.some((other) => isSameButSelf(row, other)),
    );
    const groups = Map.groupBy(own, (row) => JSON.stringify([row.old.key, row.new.key]));
    return [...groups.values()].map((all) => {
      const [first, ...others] = all.filter((row) => !isWithin(row, all));
      return { ...first!, alsoFrom: others.map(({ source }) => source) };
    });
  });
  return foldNodes(folded);
}

/** Whether a wider source has the same change, so that this one adds nothing. */
function isWithin({ source }: FlowDifference, others: readonly FlowDifference[]): boolean {
  const isWider = (other: FlowSource): boolean => other.class === source.class && other.network === undefined;
  return source.network !== undefined && others.some((other) => isWider(other.source));
}

/** Merges rows that differ in nodes only. The example packet stays that of the first node: rows are in its order. */
function foldNodes(changes: readonly ChangedFlow[]): readonly ChangedFlow[] {
  const groups = Map.groupBy(changes, ({ nodes, family, destination, source, alsoFrom, old, new: updated }) => {
    const sources = [source, ...alsoFrom].map((one) => `${one.class} ${one.network ?? ''}`);
    return JSON.stringify([nodes.profile, family, destination, sources, old.key, updated.key]);
  });
  return [...groups.values()].map(([first, ...others]) => {
    const { profile, nodes } = first!.nodes;
    const all = [...nodes, ...others.flatMap((other) => other.nodes.nodes)].toSorted(compareText);
    return { ...first!, nodes: { profile, nodes: all } };
  });
}

function isSameButSelf(row: FlowDifference, other: FlowDifference): boolean {
  const { address } = row.source;
  return (['old', 'new'] as const).every(
    (side) => withoutSelf(row[side], address) === withoutSelf(other[side], address),
  );
}

/** The text of an outcome, without the masquerading of an endpoint's connection to itself. */
function withoutSelf({ branches, affinity }: FlowOutcome, address: string): string {
  const texts = branches.map(({ to, verdict, masquerade, share }) => {
    const isSelf = to !== undefined && addressOfEndpoint(to) === address;
    return `${verdict} ${to ?? ''} ${masquerade && !isSelf} ${share.toFixed(7)}`;
  });
  return `${texts.toSorted(compareText).join(' | ')} ${affinity ?? ''}`;
}
