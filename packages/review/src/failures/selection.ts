import { clusterLists, localLists } from '../bundle/endpoints.ts';
import type { HeaderNote } from '@sluice/bundle';
import type { Survivors } from './failure.ts';
import type { DeclaredPort } from './ports.ts';

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
