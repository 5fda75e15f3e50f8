import { planeNameOf, type PlaneName } from '@sluice/netfilter';
import type { Beside } from '../plan/beside.ts';
import type { PlanOptions } from '../plan/plan.ts';
import type { TransactionPlan } from '../plan/transaction-plan.ts';
import type { ChangeKind, Flip } from '../ports/journal.ts';
import type { Kernel, Switch } from '../ports/kernel.ts';
import type { NodeState } from '../ports/node-state.ts';
import { flatPlane } from './flat.ts';
import { ipvsPlane } from './ipvs.ts';
import { nftablesPlane } from './nftables.ts';
import type { NodePlane, ObservedBeside } from './plane.ts';
import { treePlane } from './tree.ts';

const planes = {
  flat: flatPlane,
  tree: treePlane,
  ipvs: ipvsPlane,
  nftables: nftablesPlane,
} as const satisfies Record<PlaneName, NodePlane>;

/** A data plane by its name. */
export const planeNamed = (name: PlaneName): NodePlane => planes[name];

/** The data plane that a state is for. */
export const nodePlaneOf = (state: Pick<NodeState, 'families' | 'ipvs' | 'nft'>): NodePlane =>
  planes[planeNameOf(state)];

/** Reads what the kernel has beside the tables of iptables, of each part that a state has. @throws KernelError */
export async function observeBeside(state: NodeState, kernel: Kernel): Promise<ObservedBeside> {
  const parts = await Promise.all(Object.values(planes).map((plane) => plane.observeBeside(state, kernel)));
  return Object.assign({}, ...parts) as ObservedBeside;
}

/** What an operator can load by hand in an emergency beside the rules of iptables, of each part that a state has: by file name. */
export function nativeFilesBeside(state: NodeState): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.values(planes).flatMap((plane) => Object.entries(plane.nativeFiles(state))));
}

/**
 * Plans the transaction from `now` to `desired`, as the data plane of the desired state does.
 *
 * - Change of the mode: the new data plane first, then the old one goes.
 * - Sets, virtual servers and addresses of mode ipvs have no switch: they change in the order of `plan`.
 * @param its the switch of the kernel, if it has one
 * @param beside what is beside the tables now
 */
export function planTransaction(
  now: NodeState,
  desired: NodeState,
  { changeKind, its }: { readonly changeKind: ChangeKind; readonly its: Switch | undefined },
  options: PlanOptions,
  beside: Beside = {},
): TransactionPlan {
  const plane = nodePlaneOf(desired);
  if (changeKind === 'endpoints') return plane.planUpdate({ now, desired }, options, beside);
  const flip: Flip = its ? plane.flipOf(now, desired, its) : 'ordered';
  return plane.planRelease({ now, desired }, flip, options, beside);
}
