import type { Guard } from '@sluice/bundle';
import { appendTo, compareText, getOrInsert } from '@sluice/netfilter';
import type { Endpoint, PortOfFamily, ServicePort } from '../model/model.ts';
import { type NodeFleet, nodeGuards, textFits } from './guards.ts';
import { union, usable, usesOf } from './select.ts';

/** A list of endpoints and the guard of the nodes that use it; no guard: every node. */
export interface Variant {
  readonly guard?: Guard;
  readonly endpoints: readonly Endpoint[];
}

/** The results of `selectEndpoints` for all nodes at once. */
export interface FleetSelection {
  /** A usable endpoint exists. Independent of the node: hints only narrow a list that is not empty. */
  readonly hasAny: boolean;
  /** Exactly one variant holds on each node; empty: no node has endpoints. */
  readonly cluster: readonly Variant[];
  /** At most one variant holds on each node. */
  readonly local: readonly Variant[];
  /** All endpoints that at least one node uses, by text. */
  readonly all: readonly Endpoint[];
}

/**
 * The endpoints of a Service port on every node. Enumerates nodes only where endpoints have hints for nodes.
 * @param here the port in one family
 */
export function selectForFleet(port: ServicePort, here: PortOfFamily, fleet: NodeFleet): FleetSelection {
  const uses = usesOf(port, here);
  const cluster = uses.cluster ? clusterVariants(here.endpoints, fleet) : [];
  const local = uses.local ? localVariants(here.endpoints) : [];
  const lists = [...cluster, ...local].map((variant) => variant.endpoints);
  const all = lists.length === 1 ? lists[0]! : union(...lists);
  return { hasAny: usable(here.endpoints).length > 0, cluster, local, all };
}

/** The local endpoints of each node that has usable ones. Hints do not apply. */
function localVariants(endpoints: readonly Endpoint[]): readonly Variant[] {
  const byNode = Map.groupBy(endpoints, (endpoint) => endpoint.nodeName);
  const variants: Variant[] = [];
  for (const [name, list] of byNode) {
    const found = usable(list);
    if (name === undefined || found.length === 0) continue;
    variants.push({ guard: { kind: 'node', negated: false, values: [name] }, endpoints: found });
  }
  return variants.toSorted((a, b) => compareText(placeOf(a), placeOf(b)));
}

function placeOf(variant: Variant): string {
  return variant.guard?.kind === 'node' ? variant.guard.values[0]! : '';
}

function clusterVariants(endpoints: readonly Endpoint[], fleet: NodeFleet): readonly Variant[] {
  const rest = usable(endpoints);
  if (rest.length === 0) return [];
  const ready = endpoints.filter((endpoint) => endpoint.ready);
  const byNode = hinted(ready, (endpoint) => endpoint.hintNodes);
  const byZone = hinted(ready, (endpoint) => endpoint.hintZones);
  if (byNode.size > 0) return variantsByNode(byNode, byZone, rest, fleet);
  if (byZone.size > 0) return variantsByZone(byZone, rest) ?? variantsByNode(byNode, byZone, rest, fleet);
  return [{ endpoints: rest }];
}

/** The endpoints by hinted node or zone. Empty if any endpoint has no hint: then none counts. */
function hinted(
  ready: readonly Endpoint[],
  hintsOf: (endpoint: Endpoint) => readonly string[],
): Map<string, Endpoint[]> {
  const lists = new Map<string, Endpoint[]>();
  if (!ready.every((endpoint) => hintsOf(endpoint).length > 0)) return lists;
  for (const endpoint of ready) for (const place of new Set(hintsOf(endpoint))) appendTo(lists, place, endpoint);
  return lists;
}

/**
 * Variants that depend on zones only, so that guards name zones and nodes are not enumerated.
 * @returns undefined when there are more zones than fit into one guard
 */
function variantsByZone(byZone: ReadonlyMap<string, Endpoint[]>, rest: readonly Endpoint[]): Variant[] | undefined {
  const groups = Map.groupBy([...byZone.keys()].toSorted(compareText), (zone) => identity(byZone.get(zone)!));
  // A zone with all endpoints does not differ from nodes outside of the hinted zones.
  groups.delete(identity(rest));
  if (groups.size === 0) return [{ endpoints: rest }];
  const named = [...groups.values()].flat().toSorted(compareText);
  if (!textFits(named)) return undefined;
  const variants = [...groups.values()].map(
    (zones): Variant => ({ guard: { kind: 'zone', negated: false, values: zones }, endpoints: byZone.get(zones[0]!)! }),
  );
  return [...variants, { guard: { kind: 'zone', negated: true, values: named }, endpoints: rest }];
}

/** Variants that depend on nodes, and also on zones where they have some: no guard can say "zone a, but not node 7", so nodes are listed by name. */
function variantsByNode(
  byNode: ReadonlyMap<string, Endpoint[]>,
  byZone: ReadonlyMap<string, Endpoint[]>,
  rest: readonly Endpoint[],
  fleet: NodeFleet,
): Variant[] {
  const groups = new Map<string, { endpoints: readonly Endpoint[]; names: string[]; byName: boolean }>();
  const identities = new Map<readonly Endpoint[], string>();
  for (const { name, zone } of fleet.nodes) {
    const ofNode = byNode.get(name);
    const endpoints = ofNode ?? (zone === undefined ? rest : (byZone.get(zone) ?? rest));
    const id = identities.get(endpoints) ?? identity(endpoints);
    identities.set(endpoints, id);
    const group = getOrInsert(groups, id, () => ({ endpoints, names: [], byName: false }));
    group.names.push(name);
    group.byName ||= ofNode !== undefined;
  }
  if (groups.size <= 1) return [{ endpoints: groups.values().next().value?.endpoints ?? rest }];
  return [...groups.values()].flatMap(({ endpoints, names, byName }) =>
    nodeGuards(names, fleet, byName).map((guard): Variant => ({ guard, endpoints })),
  );
}

/** A key by which lists of one port are compared. */
function identity(endpoints: readonly Endpoint[]): string {
  return endpoints.map((endpoint) => endpoint.text).join(' ');
}
