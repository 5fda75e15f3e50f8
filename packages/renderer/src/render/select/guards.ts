import type { Guard } from '@sluice/bundle';
import { compareText } from '@sluice/netfilter';
import type { NodeView } from './select.ts';

/** The nodes of a bundle, with indexes by zone. */
export interface NodeFleet {
  /** By name. */
  readonly nodes: readonly NodeView[];
  /** The number of nodes by zone. */
  readonly zoneSizes: ReadonlyMap<string, number>;
  readonly zoneOf: ReadonlyMap<string, string>;
}

/** A line may have 64 KiB with its guard and 1,000 bytes without (packages/bundle/README.md, "Limits"). */
const guardBytesMax = 60_000;

export function fleetOf(nodes: readonly NodeView[]): NodeFleet {
  const zoneSizes = new Map<string, number>();
  const zoneOf = new Map<string, string>();
  for (const { name, zone } of nodes) {
    if (zone === undefined) continue;
    zoneSizes.set(zone, (zoneSizes.get(zone) ?? 0) + 1);
    zoneOf.set(name, zone);
  }
  return { nodes: nodes.toSorted((a, b) => compareText(a.name, b.name)), zoneSizes, zoneOf };
}

/** Whether the values fit into one guard. */
export function textFits(values: readonly string[]): boolean {
  return bytesOf(values) <= guardBytesMax;
}

function bytesOf(values: readonly string[]): number {
  return values.reduce((sum, value) => sum + value.length + 1, 0);
}

/**
 * Disjoint guards that hold on exactly these nodes of the fleet: whole zones if possible, else the shorter one of these names and the
 * negated other names, else several lists of names.
 * @param names sorted, some but not all nodes of the fleet
 * @param byName the nodes were chosen by name, not by zone: do not use zones, even where one happens to have the same nodes
 */
export function nodeGuards(names: readonly string[], fleet: NodeFleet, byName: boolean): readonly Guard[] {
  // A list per node is common (a DaemonSet with hints); counting the others for each of them would be quadratic.
  if (byName && names.length <= fleet.nodes.length / 2) return named(names);
  const chosen = new Set(names);
  const others = fleet.nodes.map((node) => node.name).filter((name) => !chosen.has(name));
  if (!byName) {
    const within = wholeZones(names, fleet);
    if (within) return [{ kind: 'zone', negated: false, values: within }];
    const outside = wholeZones(others, fleet);
    if (outside) return [{ kind: 'zone', negated: true, values: outside }];
  }
  if (bytesOf(others) < bytesOf(names) && textFits(others)) return [{ kind: 'node', negated: true, values: others }];
  return named(names);
}

/** The zones with exactly these nodes, if there are any. */
function wholeZones(names: readonly string[], fleet: NodeFleet): readonly string[] | undefined {
  const zones = new Set<string>();
  for (const name of names) {
    const zone = fleet.zoneOf.get(name);
    if (zone === undefined) return undefined;
    zones.add(zone);
  }
  const size = [...zones].reduce((sum, zone) => sum + (fleet.zoneSizes.get(zone) ?? 0), 0);
  const sorted = [...zones].toSorted(compareText);
  return size === names.length && textFits(sorted) ? sorted : undefined;
}

/** The names in as few guards as possible. */
function named(names: readonly string[]): readonly Guard[] {
  const lists: string[][] = [];
  let bytes = Number.POSITIVE_INFINITY;
  for (const name of names) {
    if (bytes + name.length + 1 > guardBytesMax) {
      lists.push([]);
      bytes = 0;
    }
    lists.at(-1)!.push(name);
    bytes += name.length + 1;
  }
  return lists.map((values): Guard => ({ kind: 'node', negated: false, values }));
}
