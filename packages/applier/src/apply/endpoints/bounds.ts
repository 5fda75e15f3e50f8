import {
  type Service,
  type ServiceChange,
  type ServiceEndpoint,
  cidrContains,
  compareText,
  parseAddress,
  planeOf,
} from '@sluice/netfilter';
import { limits } from '../../limits.ts';
import type { NodeState } from '../../ports/node-state.ts';

/** The bounds within which newer endpoints are taken. */
export interface Bounds {
  /** Whether a new endpoint may have this address (`approvedBy`). */
  readonly isApproved: (address: string) => boolean;
  /** How many endpoints a Service may lose. */
  readonly loss: LossBound;
  /** Sets of endpoints that are not taken, by Service (`EndpointChange.key`). */
  readonly declined?: ReadonlyMap<string, string>;
}

/** `few`: `losesFew`; `most`: all, if it gets about as many others (`keepsMost`); `any`: as long as one endpoint is left. */
type LossBound = 'few' | 'most' | 'any';

/** By `address:port`. */
export type Endpoints = ReadonlyMap<string, ServiceEndpoint>;

/** Whether a Service keeps endpoints, and loses one or at most `limits.endpointsLostShareMax` of them. */
export function losesFew(before: Endpoints, after: Endpoints): boolean {
  const lost = [...before.keys()].filter((one) => !after.has(one)).length;
  return after.size > 0 && lost <= Math.max(1, before.size * limits.endpointsLostShareMax);
}

/** Whether a Service has about as many endpoints as before, or more; all of them may be new. */
function keepsMost(before: Endpoints, after: Endpoints): boolean {
  return after.size > 0 && before.size - after.size <= Math.max(1, before.size * limits.endpointsLostShareMax);
}

const withinLossBound: Readonly<Record<LossBound, (before: Endpoints, after: Endpoints) => boolean>> = {
  few: losesFew,
  most: keepsMost,
  any: (_before, after) => after.size > 0,
};

/** The endpoints that get new connections. */
export const serving = ({ endpoints }: Service): Endpoints =>
  new Map([...endpoints].filter(([, { weight }]) => weight > 0));

/** Whether all endpoints that are new are approved. */
export function areApproved(before: Service | undefined, after: Service, { isApproved }: Bounds): boolean {
  return [...after.endpoints].every(([one, { address }]) => before?.endpoints.has(one) === true || isApproved(address));
}

/**
 * Whether a Service differs by its endpoints alone, within the bounds of an endpoint update: it keeps endpoints, loses one or at most
 * `limits.endpointsLostShareMax` of them at once, and they are chosen and treated as before.
 */
export function isUpdate({ key, before, after, fits }: ServiceChange, bounds: Bounds): boolean {
  if (!before || !after || !fits) return false;
  const [served, serves] = [serving(before), serving(after)];
  if (served.size === 0 || !withinLossBound[bounds.loss](served, serves) || !areApproved(before, after, bounds))
    return false;
  const offers = bounds.declined?.get(key);
  return offers === undefined || offers !== endpointsText(serves.keys());
}

/**
 * Tells addresses that an endpoint update may use: those in the networks that the release names, and those that the release has already.
 * A release that names no networks does not bound its endpoints.
 *
 * Pods in the host network lie outside of the networks of pods; where the release has one at an address, it may return there.
 */
export function approvedBy(state: NodeState): (address: string) => boolean {
  const ranges = state.endpointRanges ?? [];
  let known: ReadonlySet<string> | undefined;
  return (address) => {
    if (ranges.length === 0) return true;
    if (parseAddress(address) && ranges.some((cidr) => cidrContains(cidr, address))) return true;
    known ??= planeOf(state).read(state).addresses();
    return known.has(address);
  };
}

/** What identifies a set of endpoints: each as `address:port`, sorted. */
export const endpointsText = (endpoints: Iterable<string>): string => [...endpoints].toSorted(compareText).join(' ');
