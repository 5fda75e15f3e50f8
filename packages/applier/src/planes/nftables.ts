import { isBySwitch, printNft } from '@sluice/netfilter';
import { planNftInPlace, planNftProbation } from '../nftables/plan.ts';
import { holdsByDefault } from '../nftables/repair.ts';
import type { Beside } from '../plan/beside.ts';
import { type PlanOptions, sysctlSteps } from '../plan/plan.ts';
import { planInPlace, type TransactionPlan, withSteps } from '../plan/transaction-plan.ts';
import type { NodeState } from '../ports/node-state.ts';
import { inPlace } from './in-place.ts';
import type { NodePlane, PlannedStates } from './plane.ts';

/**
 * Mode nftables: one table. A release lies beside the active one, then the switch is set; if the table or the profile's sets change, all
 * of it is one transaction.
 */
export const nftablesPlane: NodePlane = {
  name: 'nftables',
  mode: 'nftables',
  label: 'mode nftables',
  hasSwitch: true,
  hasOwnTable: true,
  failsHarmlessly: true,
  hasServers: false,
  namesServices: false,
  flipOf: ({ nft: now }, { nft: desired }) => (now && desired && isBySwitch(now, desired) ? 'switch' : 'ordered'),
  planRelease: (change, flip, options, beside) =>
    flip === 'switch'
      ? planNftBySwitch(change, options, beside)
      : planInPlace(change.now, change.desired, options, beside),
  planUpdate: planNftUpdate,
  // The overlay of a release on probation changes together with what it lies over.
  planNewerEndpoints: (before, after, options, beside) =>
    after.flip === 'switch' ? after.stage : inPlace.planNewerEndpoints(before, after, options, beside),
  missing: async ({ nft }) => ((await nft?.exists()) === true ? undefined : 'table inet sluice is missing'),
  shows: async (_observed, { nft: state }, { kernel }) => {
    const table = await kernel.nft?.observe();
    return table !== undefined && state !== undefined && holdsByDefault(table, state);
  },
  observeBeside: async ({ nft: expected }, { nft }) => (expected ? { table: await nft?.observe() } : {}),
  nativeFiles: ({ nft }) => (nft ? { 'table.nft': printNft(nft) } : {}),
  // Its rules come first, whatever runs beneath.
  refusesBeneath: () => undefined,
};

/** A release in mode nftables: beside the active one, then the switch. */
function planNftBySwitch({ now, desired }: PlannedStates, options: PlanOptions, { nft }: Beside): TransactionPlan {
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
function planNftUpdate({ now, desired }: PlannedStates, options: PlanOptions, { nft }: Beside): TransactionPlan {
  const { cutOver, ...planned } = planInPlace(now, desired, options);
  if (!nft || !desired.nft) return { ...planned, cutOver };
  const { first, late } = planNftInPlace(nft, desired.nft);
  return {
    ...planned,
    cutOver: withSteps(cutOver, first),
    finish: { steps: [...late, ...planned.finish.steps], touched: [] },
  };
}
