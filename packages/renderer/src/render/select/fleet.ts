import type { Guard } from '@sluice/bundle';
import { compareText } from '@sluice/bundle';
import type { Endpoint, PortOfFamily, ServicePort } from '../model.ts';
import type { Fleet } from './guards.ts';
import { nodeGuards, textFits } from './guards.ts';
import { union, usable, usesOf } from './select.ts';

/** A list of endpoints and where it holds; no guard: on every node. */
export interface Variant {
  readonly guard?: Guard;
  readonly endpoints: readonly Endpoint[];
}

/** What `selectEndpoints` says on each node, told once for all of them. */
export interface FleetSelection {
  /** Some node could serve this port. Never depends on the node: hints only narrow a list that is not empty. */
  readonly hasAny: boolean;
  /** Exactly one of them holds on a node; empty: no node has any. */
  readonly cluster: readonly Variant[];
  /** At most one of them holds on a node. */
  readonly local: readonly Variant[];
  /** Everything that some node uses, by text. */
  readonly all: readonly Endpoint[];
}

/**
 * Which endpoints every node uses for a Service port. Looks at single nodes only where endpoints have hints for nodes.
 * @param here the port in the family at hand
 */
export function selectForFleet(port: ServicePort, here: PortOfFamily, fleet: Fleet): FleetSelection {
  const uses = usesOf(port, here);
  const cluster = uses.cluster ? clusterVariants(here.endpoints, fleet) : [];
  const local = uses.local ? localVariants(here.endpoints) : [];
  const lists = [...cluster, ...local].map((variant) => variant.endpoints);
  const all = lists.length === 1 ? lists[0]! : union(...lists);
  return { hasAny: usable(here.endpoints).length > 0, cluster, local, all };
}

/** The list of each node that holds an endpoint it may use. Hints do not matter here. */
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

function clusterVariants(endpoints: readonly Endpoint[], fleet: Fleet): readonly Variant[] {
  const rest = usable(endpoints);
  if (rest.length === 0) return [];
  const ready = endpoints.filter((endpoint) => endpoint.ready);
  const byNode = hinted(ready, (endpoint) => endpoint.hintNodes);
  const byZone = hinted(ready, (endpoint) => endpoint.hintZones);
  if (byNode.size > 0) return variantsByNode(byNode, byZone, rest, fleet);
  if (byZone.size > 0) return variantsByZone(byZone, rest) ?? variantsByNode(byNode, byZone, rest, fleet);
  return [{ endpoints: rest }];
}

/** Which endpoints each hinted node or zone has. Empty where one endpoint has no hint: then none counts. */
function hinted(
  ready: readonly Endpoint[],
  hintsOf: (endpoint: Endpoint) => readonly string[],
): Map<string, Endpoint[]> {
  const lists = new Map<string, Endpoint[]>();
  if (!ready.every((endpoint) => hintsOf(endpoint).length > 0)) return lists;
  for (const endpoint of ready) {
    for (const place of new Set(hintsOf(endpoint))) {
      const list = lists.get(place);
      if (list) list.push(endpoint);
      else lists.set(place, [endpoint]);
    }
  }
  return lists;
}

/**
 * Only zones matter: the guards name them, and no node has to be looked at.
 * @returns nothing when there are more zones than fit into one guard
 */
function variantsByZone(byZone: ReadonlyMap<string, Endpoint[]>, rest: readonly Endpoint[]): Variant[] | undefined {
  const groups = Map.groupBy([...byZone.keys()].toSorted(compareText), (zone) => identity(byZone.get(zone)!));
  // A zone whose endpoints are all there are is no different from "elsewhere".
  groups.delete(identity(rest));
  if (groups.size === 0) return [{ endpoints: rest }];
  const named = [...groups.values()].flat().toSorted(compareText);
  if (!textFits(named)) return undefined;
  const variants = [...groups.values()].map(
    (zones): Variant => ({ guard: { kind: 'zone', negated: false, values: zones }, endpoints: byZone.get(zones[0]!)! }),
  );
  return [...variants, { guard: { kind: 'zone', negated: true, values: named }, endpoints: rest }];
}

/** Nodes matter, perhaps zones too: "zone a, but not node 7" is no guard, so the nodes of each list are counted out. */
function variantsByNode(
  byNode: ReadonlyMap<string, Endpoint[]>,
  byZone: ReadonlyMap<string, Endpoint[]>,
  rest: readonly Endpoint[],
  fleet: Fleet,
): Variant[] {
  const groups = new Map<string, { endpoints: readonly Endpoint[]; names: string[]; byName: boolean }>();
  const identities = new Map<readonly Endpoint[], string>();
  for (const { name, zone } of fleet.nodes) {
    const ofNode = byNode.get(name);
    const endpoints = ofNode ?? (zone === undefined ? rest : (byZone.get(zone) ?? rest));
    const id = identities.get(endpoints) ?? identity(endpoints);
    identities.set(endpoints, id);
    const group = groups.get(id) ?? { endpoints, names: [], byName: false };
    group.names.push(name);
    group.byName ||= ofNode !== undefined;
    groups.set(id, group);
  }
  if (groups.size <= 1) return [{ endpoints: groups.values().next().value?.endpoints ?? rest }];
  return [...groups.values()].flatMap(({ endpoints, names, byName }) =>
    nodeGuards(names, fleet, byName).map((guard): Variant => ({ guard, endpoints })),
  );
}

/** Two lists from one port are the same when this is. */
function identity(endpoints: readonly Endpoint[]): string {
  return endpoints.map((endpoint) => endpoint.text).join(' ');
}
