import { compareText, planeOf } from '@sluice/netfilter';
import type { ChangeKind } from '../../ports/journal.ts';
import { familiesOf, type NodeState } from '../../ports/node-state.ts';
import { approvedBy, isUpdate } from './bounds.ts';
import { type FirstAndLast, firstAndLastOf } from './first-and-last.ts';

/** The kind of a change, and the frontends whose Services get a first endpoint or lose the last one. */
export interface ChangeClass extends Partial<FirstAndLast> {
  readonly changeKind: ChangeKind;
}

/**
 * Decides whether a change is an endpoint update: it is if it only adds and removes endpoints of Services that have some, within bounds.
 * Anything else is a release, which needs probation: Services, ports, addresses, policies, sysctls, base chains, jumps.
 * @param from the active state
 * @param replacesAll `OverlayOptions.replacesAll`
 */
export function changeKindOf(from: NodeState, desired: NodeState, replacesAll = false): ChangeKind {
  return classified(from, desired, replacesAll, false).changeKind;
}

/** `changeKindOf` for a whole bundle: there first and last endpoints are an endpoint update, too. */
export function classify(from: NodeState, desired: NodeState, replacesAll = false): ChangeClass {
  return classified(from, desired, replacesAll, true);
}

/**
 * Whether two states differ by endpoints alone, the first and the last ones of Services too. How many are lost is not bounded, nor is
 * where they lead: `refuseOutside`.
 */
export function differsByEndpoints(from: NodeState, to: NodeState): boolean {
  const plane = planeOf(from);
  if (plane !== planeOf(to) || !sameSettings(from, to)) return false;
  const comparison = plane.compare(from, to);
  const bounds = { isApproved: () => true, loss: 'any' } as const;
  const isUpdateAlone = comparison.isRestSame && comparison.changed.every((one) => isUpdate(one, bounds));
  return isUpdateAlone || firstAndLastOf(comparison, bounds) !== undefined;
}

function classified(from: NodeState, desired: NodeState, replacesAll: boolean, isWhole: boolean): ChangeClass {
  const plane = planeOf(from);
  if (plane !== planeOf(desired) || !sameSettings(from, desired)) return { changeKind: 'release' };
  const comparison = plane.compare(from, desired);
  const isApproved = approvedBy(from);
  const loss = replacesAll ? 'most' : 'few';
  if (comparison.isRestSame && comparison.changed.every((one) => isUpdate(one, { isApproved, loss })))
    return { changeKind: 'endpoints' };
  const edges = isWhole ? firstAndLastOf(comparison, { isApproved, loss: 'few' }) : undefined;
  return edges ? { changeKind: 'endpoints', ...edges } : { changeKind: 'release' };
}

/** Whether everything besides the data plane is equal. */
export function sameSettings(a: NodeState, b: NodeState): boolean {
  const settings = ({ sysctls }: NodeState): string =>
    [...sysctls]
      .map(([key, value]) => `${key} ${value}`)
      .toSorted(compareText)
      .join();
  return (
    familiesOf(a).join() === familiesOf(b).join() &&
    settings(a) === settings(b) &&
    a.endpointRanges?.join() === b.endpointRanges?.join() &&
    a.conntrackHashSize === b.conntrackHashSize &&
    a.ipvs?.excludeCIDRs.join() === b.ipvs?.excludeCIDRs.join()
  );
}
