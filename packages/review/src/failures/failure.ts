import { addressOfEndpoint, getOrInsert } from '@sluice/netfilter';
import type { HeaderNote } from '@sluice/bundle';
import type { BundleView } from '../bundle/view.ts';

/** What can fail on its own. */
const placeKinds = ['zone', 'node', 'endpoint'] as const;

/** One thing that fails: a node with all on it, a zone with all its nodes, or an endpoint. */
export interface FailedPlace {
  readonly kind: (typeof placeKinds)[number];
  /** `node-a`, `zone-1`; an endpoint is `10.244.1.5`, or `10.244.1.5:8080` for one of its ports. */
  readonly name: string;
}

/** A bundle after a failure. */
export interface Outage {
  /** Whether an endpoint is gone. One whose node or zone is not known survives a failure of any. */
  readonly isLost: (endpoint: HeaderNote) => boolean;
  readonly survivors: Survivors;
}

/** The nodes that are left. */
export interface Survivors {
  /** Name → zone. */
  readonly zones: ReadonlyMap<string, string | undefined>;
  /** How many nodes of some profiles are in each zone; `undefined` is the zone of nodes that have none. */
  byZone(profiles: readonly string[]): ReadonlyMap<string | undefined, number>;
  /** Whether a node is one of these profiles, and not lost. */
  has(node: string, profiles: readonly string[]): boolean;
}

/** All nodes of a bundle. */
export const allNodes = (view: BundleView): Survivors => survivorsOf(view, () => false);

/**
 * The state of a bundle when all of these places fail at once.
 * @param all the nodes of the bundle
 */
export function outageOf(view: BundleView, places: readonly FailedPlace[], all: Survivors): Outage {
  const named = (kind: FailedPlace['kind']): ReadonlySet<string> =>
    new Set(places.flatMap((place) => (place.kind === kind ? [place.name] : [])));
  const [nodes, zones, endpoints] = [named('node'), named('zone'), named('endpoint')];
  const isLostNode = (name: string): boolean =>
    nodes.has(name) || (zones.size > 0 && zones.has(view.nodes.get(name)?.zone ?? ''));
  const isLostEndpoint = (text: string): boolean =>
    endpoints.size > 0 && (endpoints.has(text) || endpoints.has(addressOfEndpoint(text)));
  return {
    isLost: ({ text, node, zone }) =>
      (node !== undefined && isLostNode(node)) || (zone !== undefined && zones.has(zone)) || isLostEndpoint(text),
    survivors: nodes.size + zones.size === 0 ? all : survivorsOf(view, isLostNode),
  };
}

function survivorsOf(view: BundleView, isLost: (name: string) => boolean): Survivors {
  const left = [...view.nodes].filter(([name]) => !isLost(name));
  const profileOf = new Map(left.map(([name, { profile }]) => [name, profile]));
  const counts = new Map<string, ReadonlyMap<string | undefined, number>>();
  return {
    zones: new Map(left.map(([name, { zone }]) => [name, zone])),
    has: (node, profiles) => profiles.includes(profileOf.get(node) ?? ''),
    byZone: (profiles) =>
      getOrInsert(counts, profiles.join(' '), () => {
        const own = left.filter(([, { profile }]) => profiles.includes(profile));
        const byZone = Map.groupBy(own, ([, { zone }]) => zone);
        return new Map([...byZone].map(([zone, { length }]) => [zone, length]));
      }),
  };
}
