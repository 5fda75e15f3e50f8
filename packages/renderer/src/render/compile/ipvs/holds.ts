import type { Guard } from '@sluice/bundle';
import type { Fleet } from '../../select/guards.ts';

/** Whether a guard of a list of endpoints holds on a node of the fleet, asked by the node's name. */
export function holdsOn(guard: Guard | undefined, fleet: Fleet): (node: string) => boolean {
  if (!guard) return () => true;
  if (guard.kind !== 'zone' && guard.kind !== 'node')
    throw new TypeError(
      `Cannot tell on which nodes a guard @${guard.kind} holds: endpoints are chosen by zone or node`,
    );
  const values = new Set(guard.values);
  const isNamed =
    guard.kind === 'node'
      ? (node: string): boolean => values.has(node)
      : (node: string): boolean => values.has(fleet.zoneOf.get(node) ?? '');
  return (node) => isNamed(node) !== guard.negated;
}
