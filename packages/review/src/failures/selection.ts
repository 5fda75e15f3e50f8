import type { HeaderNote } from '../bundle/header.ts';
import type { Survivors } from './failure.ts';
import type { DeclaredPort } from './ports.ts';

/** The endpoints of a port that nodes use for a policy Cluster: by the node's name, else by its zone, else all. */
interface ClusterLists {
  readonly byNode: ReadonlyMap<string, readonly HeaderNote[]>;
  readonly byZone: ReadonlyMap<string, readonly HeaderNote[]>;
  readonly rest: readonly HeaderNote[];
}

/** The ready endpoints or, where there are none, those that terminate but still serve (KEP-1669). */
export function usable(endpoints: readonly HeaderNote[]): readonly HeaderNote[] {
  const ready = endpoints.filter((endpoint) => endpoint.ready);
  return ready.length > 0 ? ready : endpoints.filter(({ terminating, serving }) => terminating && serving);
}

/** The lists of all nodes at once. Hints count only where every ready endpoint has some (`CategorizeEndpoints` of kube-proxy). */
export function clusterLists(endpoints: readonly HeaderNote[]): ClusterLists {
  const ready = endpoints.filter((endpoint) => endpoint.ready);
  const by = (hintsOf: (one: HeaderNote) => readonly string[]): ReadonlyMap<string, readonly HeaderNote[]> => {
    const lists = new Map<string, HeaderNote[]>();
    if (!ready.every((one) => hintsOf(one).length > 0)) return lists;
    for (const one of ready)
      for (const place of new Set(hintsOf(one))) {
        const list = lists.get(place);
        if (list) list.push(one);
        else lists.set(place, [one]);
      }
    return lists;
  };
  return {
    byNode: by(({ hintNodes }) => hintNodes),
    byZone: by(({ hintZones }) => hintZones),
    rest: usable(endpoints),
  };
}

/** The usable endpoints on each node that has some, for a policy Local. */
export function localLists(endpoints: readonly HeaderNote[]): ReadonlyMap<string, readonly HeaderNote[]> {
  const lists = new Map<string, readonly HeaderNote[]>();
  for (const [node, here] of Map.groupBy(endpoints, (one) => one.node)) {
    const list = usable(here);
    if (node !== undefined && list.length > 0) lists.set(node, list);
  }
  return lists;
}

/**
 * The share of each endpoint in the connections to the ClusterIP of a port, by text, if every node opens equally many; 0 to 1.
 * Shares follow weights; schedulers that look at clients or at load may differ from that.
 */
export function sharesOf(
  port: DeclaredPort,
  endpoints: readonly HeaderNote[],
  nodes: Survivors,
): ReadonlyMap<string, number> {
  const shares = new Map<string, number>();
  const classes =
    port.internalPolicy === 'Local' ? localClasses(port, endpoints, nodes) : clusterClasses(port, endpoints, nodes);
  const all = classes.reduce((sum, { count }) => sum + count, 0);
  for (const { count, list } of classes) {
    const weights = list.reduce((sum, { weight }) => sum + weight, 0);
    // All weights may be 0: then no connection is served.
    if (weights === 0) continue;
    for (const { text, weight } of list) shares.set(text, (shares.get(text) ?? 0) + (count * weight) / weights / all);
  }
  return shares;
}

/** Nodes that use one list. */
interface NodeClass {
  readonly count: number;
  readonly list: readonly HeaderNote[];
}

function localClasses(
  { profiles }: DeclaredPort,
  endpoints: readonly HeaderNote[],
  nodes: Survivors,
): readonly NodeClass[] {
  return [...localLists(endpoints)].flatMap(([node, list]) => (nodes.has(node, profiles) ? [{ count: 1, list }] : []));
}

function clusterClasses(
  { profiles }: DeclaredPort,
  endpoints: readonly HeaderNote[],
  nodes: Survivors,
): readonly NodeClass[] {
  const { byNode, byZone, rest } = clusterLists(endpoints);
  const zones = nodes.byZone(profiles);
  const named = [...byNode].filter(([node]) => nodes.has(node, profiles));
  const taken = new Map<string | undefined, number>();
  for (const [node] of named) {
    const zone = nodes.zones.get(node);
    taken.set(zone, (taken.get(zone) ?? 0) + 1);
  }
  return [
    ...named.map(([, list]) => ({ count: 1, list })),
    ...[...zones].map(([zone, count]) => ({
      count: count - (taken.get(zone) ?? 0),
      list: (zone === undefined ? undefined : byZone.get(zone)) ?? rest,
    })),
  ];
}
