import type { Guard } from '@sluice/bundle';
import type { NodeFleet } from '../../select/guards.ts';

/** @returns a predicate on node names: whether the guard of a list of endpoints holds there */
export function holdsOn(guard: Guard | undefined, fleet: NodeFleet): (node: string) => boolean {
  if (!guard) return () => true;
  if (guard.kind !== 'zone' && guard.kind !== 'node')
    throw new TypeError(`Cannot evaluate guard @${guard.kind}: endpoints are selected by zone or node`);
  const values = new Set(guard.values);
  const isNamed =
    guard.kind === 'node'
      ? (node: string): boolean => values.has(node)
      : (node: string): boolean => values.has(fleet.zoneOf.get(node) ?? '');
  return (node) => isNamed(node) !== guard.negated;
}
