import type { Problem } from '@sluice/netfilter';
import type { ReadNode } from '../read/node.ts';
import type { ReadObjects } from '../read/read.ts';
import type { ReadService } from '../read/read-service.ts';
import type { ReadServiceCIDR } from '../read/service-cidr.ts';
import type { ReadSlice } from '../read/slice.ts';
import { fillNode, fillService, formerPort, hasAddress } from './fill.ts';
import { uniqueByKey } from './unique.ts';

/** Both layers as one: the objects of the cluster after the change. */
export interface LayeredObjects {
  /** By `namespace/name`. */
  readonly services: ReadonlyMap<string, ReadService>;
  /** Only slices that name a Service. */
  readonly slices: readonly ReadSlice[];
  /** By name. */
  readonly nodes: ReadonlyMap<string, ReadNode>;
  /** By name. */
  readonly serviceCIDRs: ReadonlyMap<string, ReadServiceCIDR>;
  /** Keys of the Services in the change. */
  readonly changed: ReadonlySet<string>;
}

/**
 * Puts a change over the base: an object of the change replaces that of the base, with the values that the cluster filled in; other
 * objects of the base stay (design: input in layers).
 * @param problems receives `OBJECT_CONFLICT` and `ENDPOINTS_GUESSED`
 */
export function layer(base: ReadObjects, change: ReadObjects, problems: Problem[]): LayeredObjects {
  const old = byKey(base, problems);
  const next = byKey(change, problems);
  const replaced = mirrorsReplacedBy(next.slices);
  const keptSlices = [...old.slices].filter(
    ([key, slice]) => !next.slices.has(key) && !(slice.mirrored && replaced.has(slice.service)),
  );
  guessEndpoints(old, next, problems);
  return {
    services: overlay(old.services, next.services, fillService),
    slices: [...keptSlices.map(([, slice]) => slice), ...next.slices.values()].filter(({ service }) => service !== ''),
    nodes: overlay(old.nodes, next.nodes, fillNode),
    serviceCIDRs: overlay(old.serviceCIDRs, next.serviceCIDRs, (one) => one),
    changed: new Set(next.services.keys()),
  };
}

interface ByKey {
  readonly services: ReadonlyMap<string, ReadService>;
  readonly slices: ReadonlyMap<string, ReadSlice>;
  readonly nodes: ReadonlyMap<string, ReadNode>;
  readonly serviceCIDRs: ReadonlyMap<string, ReadServiceCIDR>;
}

function byKey(objects: ReadObjects, problems: Problem[]): ByKey {
  return {
    services: uniqueByKey(objects.services, (service) => service.key, problems),
    slices: uniqueByKey(objects.slices, (slice) => `${slice.kind} ${slice.key}`, problems),
    nodes: uniqueByKey(objects.nodes, (node) => node.name, problems),
    serviceCIDRs: uniqueByKey(objects.serviceCIDRs, (one) => one.name, problems),
  };
}

function overlay<T>(
  old: ReadonlyMap<string, T>,
  next: ReadonlyMap<string, T>,
  fill: (next: T, old: T) => T,
): ReadonlyMap<string, T> {
  const all = new Map(old);
  for (const [key, item] of next) {
    const before = old.get(key);
    all.set(key, before === undefined ? item : fill(item, before));
  }
  return all;
}

/** Services whose Endpoints are in the change: they replace the slices that the controller mirrored from the old Endpoints. */
function mirrorsReplacedBy(slices: ReadonlyMap<string, ReadSlice>): ReadonlySet<string> {
  return new Set([...slices.values()].filter((slice) => slice.kind === 'Endpoints').map((slice) => slice.service));
}

/**
 * Reports Services whose endpoints will change once the change is live. Manifests have no pods, so the old endpoints are the best
 * available guess.
 */
function guessEndpoints(old: ByKey, next: ByKey, problems: Problem[]): void {
  if (old.services.size === 0) return;
  const backed = new Set([...old.slices.values()].map((slice) => slice.service));
  const withNewEndpoints = new Set([...next.slices.values()].map((slice) => slice.service));
  for (const [key, service] of next.services) {
    const before = old.services.get(key);
    if (!before || !hasAddress(service) || !backed.has(key) || withNewEndpoints.has(key)) continue;
    const what = changeOfEndpoints(service, before);
    if (!what) continue;
    problems.push({
      code: 'ENDPOINTS_GUESSED',
      level: 'guess',
      at: service.object.origin.place(what.path),
      object: `Service ${key}`,
      message: `Cannot predict the endpoints after this change: ${what.words}; the endpoints of the base are used`,
      hint: 'Render again with a new snapshot once the change is live',
    });
  }
}

function changeOfEndpoints(
  next: ReadService,
  old: ReadService,
): { readonly words: string; readonly path: readonly (string | number)[] } | undefined {
  if (next.selector !== old.selector) return { words: 'the selector changed', path: ['spec', 'selector'] };
  for (const port of next.ports) {
    const before = formerPort(port, next.ports, old.ports);
    const path = ['spec', 'ports', port.index];
    if (!before) continue;
    if (before.targetPort !== port.targetPort)
      return { words: `targetPort was ${before.targetPort}`, path: [...path, 'targetPort'] };
    if (before.name !== port.name) return { words: `the port was named "${before.name}"`, path: [...path, 'name'] };
  }
  return undefined;
}
