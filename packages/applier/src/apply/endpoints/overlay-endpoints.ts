import { planeOf } from '@sluice/netfilter';
import type { NodeState } from '../../ports/node-state.ts';
import { approvedBy, type Bounds, isUpdate } from './bounds.ts';

/** Exceptions from the bounds. */
export interface OverlayOptions extends Pick<Bounds, 'declined'> {
  /** A Service may lose all its endpoints if it gets about as many others (`keepsMost`). */
  readonly replacesAll?: boolean;
  /** The offered endpoints are in this kernel already: no bound holds for them. */
  readonly inKernel?: boolean;
  /** They were compared with the release already: a Service may lose all but one. */
  readonly isLive?: boolean;
}

/**
 * Overlays newer endpoints on a state: each of its Services gets the endpoints of another state, if that is an endpoint update within
 * bounds (`isUpdate`). Services that are added, removed or changed otherwise need a release.
 *
 * Both states must have the same layout and mode; otherwise nothing is taken.
 * @returns `base` itself if it takes nothing. A table that then equals that of `offered` is the same object
 */
export function overlayEndpoints(
  base: NodeState,
  offered: NodeState,
  { declined = new Map(), replacesAll = false, inKernel = false, isLive = false }: OverlayOptions = {},
): NodeState {
  const plane = planeOf(base);
  if (plane !== planeOf(offered)) return base;
  const isApproved = inKernel ? () => true : approvedBy(base);
  const bounds: Bounds = { isApproved, declined, loss: inKernel || isLive ? 'any' : replacesAll ? 'most' : 'few' };
  const comparison = plane.compare(base, offered);
  return comparison.withEndpoints(comparison.changed.filter((one) => isUpdate(one, bounds)));
}
