import { isBySwitch, type PlaneName, planeNameOf, printNft, printServers, printSets, refusal } from '@sluice/netfilter';
import { KernelError } from '../../ports/failure.ts';
import { printAddresses } from '../../ports/ipvs/text.ts';
import type { ChangeKind, Flip } from '../../ports/journal.ts';
import type { Kernel, Switch } from '../../ports/kernel.ts';
import { planNftInPlace, planNftProbation } from '../../ports/nftables/plan.ts';
import { holdsByDefault } from '../../ports/nftables/repair.ts';
import { chainNames, familyNames, type NodeState, type Observed, tableOf } from '../../ports/node-state.ts';
import type { Ports } from '../../ports/ports.ts';
import { hasServers, type OtherPlanes, readOtherPlanes } from '../plan/other-planes.ts';
import { adaptDesired, ownState } from '../plan/ownership.ts';
import { plan, planCutOver, type PlanOptions, sysctlSteps } from '../plan/plan.ts';
import { planInPlace, type TransactionPlan, withSteps } from '../plan/transaction-plan.ts';
import { noTimeouts } from '../plan/virtual.ts';
import { notBeneath } from './beneath.ts';
import type { NodePlane, ObservedOtherPlanes, PlannedStates } from './plane.ts';
import { treePlane } from './tree.ts';

/** What data planes share in which the kernel holds one release at a time, and no name identifies a content. */
const inPlace: Pick<
  NodePlane,
  | 'hasSwitch'
  | 'hasOwnTable'
  | 'failsHarmlessly'
  | 'flipOf'
  | 'planRelease'
  | 'planUpdate'
  | 'planNewerEndpoints'
  | 'missing'
> = {
  hasSwitch: false,
  hasOwnTable: false,
  failsHarmlessly: false,
  flipOf: () => 'ordered',
  planRelease: ({ now, desired }, _flip, options, otherPlanes) => planInPlace(now, desired, options, otherPlanes),
  planUpdate: ({ now, desired }, options, otherPlanes) => planInPlace(now, desired, options, otherPlanes),
  planNewerEndpoints: ({ afterCutOver: before }, { afterCutOver: after }, options, { virtual, ...others }) =>
    // Virtual servers that are to go are left as they are until then.
    planCutOver(before, after, options, virtual && hasServers(after) ? { ...others, virtual } : others),
  missing: async () => undefined,
};

/** Whether the kernel holds a whole state, except sysctls. */
async function showsExactly(observed: Observed, state: NodeState, ports: Ports): Promise<boolean> {
  // A state without rules would match any kernel.
  if (familyNames.every((family) => tableOf(state, family, 'nat').chains.size === 0)) return false;
  const owned = chainNames(state);
  const desired = adaptDesired(state, observed, owned, ports.kernel);
  const otherPlanes = await readOtherPlanes(desired, owned, ports, desired.nft);
  const now: NodeState = { ...desired, families: ownState(observed, owned, desired) };
  return plan(now, desired, ports.kernel, otherPlanes).steps.length === 0;
}

/**
 * Mode nftables: one table. A release lies beside the active one, then the switch is set; if the table or the profile's sets change, all
 * of it is one transaction.
 */
const nftablesPlane: NodePlane = {
  name: 'nftables',
  mode: 'nftables',
  label: 'mode nftables',
  hasSwitch: true,
  hasOwnTable: true,
  failsHarmlessly: true,
  hasServers: false,
  namesServices: false,
  flipOf: ({ nft: now }, { nft: desired }) => (now && desired && isBySwitch(now, desired) ? 'switch' : 'ordered'),
  planRelease: (change, flip, options, otherPlanes) =>
    flip === 'switch'
      ? planNftBySwitch(change, options, otherPlanes)
      : planInPlace(change.now, change.desired, options, otherPlanes),
  planUpdate: planNftUpdate,
  // The overlay of a release on probation changes together with what it lies over.
  planNewerEndpoints: (before, after, options, otherPlanes) =>
    after.flip === 'switch' ? after.stage : inPlace.planNewerEndpoints(before, after, options, otherPlanes),
  missing: async ({ nft }) => ((await nft?.exists()) === true ? undefined : 'table inet sluice is missing'),
  shows: async (_observed, { nft: state }, { kernel }) => {
    const table = await kernel.nft?.observe();
    return table !== undefined && state !== undefined && holdsByDefault(table, state);
  },
  observeOwn: async ({ nft: expected }, { nft }) => (expected ? { table: await nft?.observe() } : {}),
  nativeFiles: ({ nft }) => (nft ? { 'table.nft': printNft(nft) } : {}),
  // Its rules come first, whatever runs beneath.
  refusesBeneath: () => undefined,
};

/** A release in mode nftables: beside the active one, then the switch. */
function planNftBySwitch({ now, desired }: PlannedStates, options: PlanOptions, { nft }: OtherPlanes): TransactionPlan {
  const { held } = nft ?? {};
  if (!nft || !held || !now.nft || !desired.nft) return planInPlace(now, desired, options, nft ? { nft } : {});
  const sysctls = sysctlSteps(now, desired, false);
  const planned = planNftProbation({ ...nft, held }, now.nft, desired.nft);
  const confirmed: NodeState = { ...desired, nft: now.nft };
  return {
    flip: 'switch',
    stage: { steps: [...sysctls.before, ...planned.stage], touched: [] },
    cutOver: { steps: sysctls.after, touched: [] },
    defaults: { steps: planned.defaults, touched: [] },
    finish: { steps: planned.finish, touched: [] },
    afterStage: confirmed,
    afterCutOver: confirmed,
    afterDefaults: desired,
    desired,
  };
}

/** In mode nftables packets meet the newer endpoints at once; what no verdict leads to any more is removed later. */
function planNftUpdate({ now, desired }: PlannedStates, options: PlanOptions, { nft }: OtherPlanes): TransactionPlan {
  const { cutOver, ...planned } = planInPlace(now, desired, options);
  if (!nft || !desired.nft) return { ...planned, cutOver };
  const { first, late } = planNftInPlace(nft, desired.nft);
  return {
    ...planned,
    cutOver: withSteps(cutOver, first),
    finish: { steps: [...late, ...planned.finish.steps], touched: [] },
  };
}

/** Mode ipvs: virtual servers and sets, and rules in kube-proxy's chains. */
const ipvsPlane: NodePlane = {
  ...inPlace,
  name: 'ipvs',
  mode: 'ipvs',
  label: 'mode ipvs',
  hasServers: true,
  namesServices: false,
  shows: async (observed, state, ports) => ports.kernel.ipvs !== undefined && showsExactly(observed, state, ports),
  observeOwn: async ({ ipvs: expected }, { ipvs }) => {
    if (!expected) return {};
    if (!ipvs) throw new KernelError('ipvsadm, ipset and ip', 'one of them is not installed', 'missing');
    const { servers } = await ipvs.observe(noTimeouts);
    return { servers };
  },
  nativeFiles: ({ ipvs }) =>
    ipvs
      ? {
          'ipset.rules': printSets(ipvs),
          'ipvs.rules': printServers(ipvs),
          'addresses.batch': printAddresses(ipvs),
        }
      : {},
  // Two sets of virtual servers cannot stand side by side, and rules of any mode come before them.
  refusesBeneath: ([proxy]) =>
    notBeneath(proxy, 'Give the node a profile in mode iptables or nftables; mode ipvs can follow later'),
};

/**
 * Mode iptables in layout `flat`, with kube-proxy's names of chains. A release: filter allows what both programs need, nat changes, filter
 * narrows; the old program is gone then.
 */
const flatPlane: NodePlane = {
  ...inPlace,
  name: 'flat',
  mode: 'iptables',
  label: 'layout flat',
  hasServers: false,
  namesServices: true,
  shows: showsExactly,
  observeOwn: async () => ({}),
  nativeFiles: () => ({}),
  refusesBeneath: () =>
    refusal(
      'NODE_CANNOT_ADOPT',
      "Cannot put the bundle in front of this kube-proxy: in layout flat its chains have the names of kube-proxy's",
      'Set `layout: tree` in sluiced.yaml',
    ),
};

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
export async function observeOtherPlanes(state: NodeState, kernel: Kernel): Promise<ObservedOtherPlanes> {
  const parts = await Promise.all(Object.values(planes).map((plane) => plane.observeOwn(state, kernel)));
  return Object.assign({}, ...parts) as ObservedOtherPlanes;
}

/** What an operator can load by hand in an emergency beside the rules of iptables, of each part that a state has: by file name. */
export function nativeFilesOf(state: NodeState): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.values(planes).flatMap((plane) => Object.entries(plane.nativeFiles(state))));
}

/**
 * Plans the transaction from `now` to `desired`, as the data plane of the desired state does.
 *
 * - Change of the mode: the new data plane first, then the old one goes.
 * - Sets, virtual servers and addresses of mode ipvs have no switch: they change in the order of `plan`.
 * @param its the switch of the kernel, if it has one
 * @param otherPlanes what is beside the tables now
 */
export function planTransaction(
  now: NodeState,
  desired: NodeState,
  { changeKind, its }: { readonly changeKind: ChangeKind; readonly its: Switch | undefined },
  options: PlanOptions,
  otherPlanes: OtherPlanes = {},
): TransactionPlan {
  const plane = nodePlaneOf(desired);
  if (changeKind === 'endpoints') return plane.planUpdate({ now, desired }, options, otherPlanes);
  const flip: Flip = its ? plane.flipOf(now, desired, its) : 'ordered';
  return plane.planRelease({ now, desired }, flip, options, otherPlanes);
}
