import { appendTo, perObject } from '@sluice/netfilter';
import type { HeaderNote } from '@sluice/bundle';
import type { NodeOf } from './node.ts';

/** Which of the endpoints that a comment block declares a node uses. */

/** The endpoints of a port that nodes use for a policy Cluster: by the node's name, else by its zone, else all. */
interface ClusterLists {
  readonly byNode: ReadonlyMap<string, readonly HeaderNote[]>;
  readonly byZone: ReadonlyMap<string, readonly HeaderNote[]>;
  readonly rest: readonly HeaderNote[];
}

/** The ready endpoints or, where there are none, those that terminate but still serve (KEP-1669). */
export const usable = perObject((endpoints: readonly HeaderNote[]): readonly HeaderNote[] => {
  const ready = endpoints.filter((endpoint) => endpoint.ready);
  return ready.length > 0 ? ready : endpoints.filter(({ terminating, serving }) => terminating && serving);
});

/**
 * The usable endpoints under topology hints, of all nodes at once. Hints count only where every ready endpoint has some
 * (`CategorizeEndpoints` in `pkg/proxy/topology.go`).
 */
export const clusterLists = perObject((endpoints: readonly HeaderNote[]): ClusterLists => {
  const ready = endpoints.filter((endpoint) => endpoint.ready);
  const by = (hintsOf: (one: HeaderNote) => readonly string[]): ReadonlyMap<string, readonly HeaderNote[]> => {
    const lists = new Map<string, HeaderNote[]>();
    if (!ready.every((one) => hintsOf(one).length > 0)) return lists;
    for (const one of ready) for (const place of new Set(hintsOf(one))) appendTo(lists, place, one);
    return lists;
  };
  return {
    byNode: by(({ hintNodes }) => hintNodes),
    byZone: by(({ hintZones }) => hintZones),
    rest: usable(endpoints),
  };
});

/** The usable endpoints on each node that has some, for a policy Local. */
export const localLists = perObject((endpoints: readonly HeaderNote[]): ReadonlyMap<string, readonly HeaderNote[]> => {
  const lists = new Map<string, readonly HeaderNote[]>();
  for (const [node, here] of Map.groupBy(endpoints, (one) => one.node)) {
    const list = usable(here);
    if (node !== undefined && list.length > 0) lists.set(node, list);
  }
  return lists;
});

/** What one node uses for a policy Cluster. */
export function clusterEndpoints(endpoints: readonly HeaderNote[], { name, file }: NodeOf): readonly HeaderNote[] {
  const { byNode, byZone, rest } = clusterLists(endpoints);
  return byNode.get(name) ?? byZone.get(file.zone ?? '') ?? rest;
}

/** What one node uses for a policy Local. */
export const localEndpoints = (endpoints: readonly HeaderNote[], { name }: NodeOf): readonly HeaderNote[] =>
  localLists(endpoints).get(name) ?? none;

const none: readonly HeaderNote[] = [];
