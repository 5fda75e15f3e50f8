import type { Mode, PlaneName, Problem } from '@sluice/netfilter';
import type { ObservedIpvs } from '../../ports/ipvs/values.ts';
import type { ObservedNft } from '../../ports/nftables/observed.ts';
import type { OtherPlanes } from '../plan/other-planes.ts';
import type { Plan, PlanOptions } from '../plan/plan.ts';
import type { TransactionPlan } from '../plan/transaction-plan.ts';
import type { Flip } from '../../ports/journal.ts';
import type { Kernel, Switch } from '../../ports/kernel.ts';
import type { NodeState, Observed } from '../../ports/node-state.ts';
import type { Ports } from '../../ports/ports.ts';

/**
 * How one data plane of a node changes, and how its rules are recognised. `nodePlaneOf` finds that of a state; code outside of this folder
 * asks it, and does not look which parts a state has. Another data plane is a further file here.
 */
export interface NodePlane {
  readonly name: PlaneName;
  readonly mode: Mode;
  /** For people: `layout tree`, `mode ipvs`. */
  readonly label: string;
  /** Whether a release can be on probation behind the switch, so that the kernel may hold parts of two of them. */
  readonly hasSwitch: boolean;
  /** Whether virtual servers choose endpoints. */
  readonly hasServers: boolean;
  /** Whether it is one table of its own for both families, which belongs to no rule store of iptables. */
  readonly hasOwnTable: boolean;
  /**
   * Whether what only a whole release shows, such as a lack of memory, is found where it does no harm: where no packet meets it yet, or in
   * one transaction, of which the kernel takes all or nothing.
   */
  readonly failsHarmlessly: boolean;
  /** Whether comments of rules name Services. */
  readonly namesServices: boolean;
  /** How packets come from `now` to a release. @param its the switch of the kernel */
  flipOf(now: NodeState, desired: NodeState, its: Switch): Flip;
  /** Plans a release with a given flip: also used again when both programs of a probation get newer endpoints. */
  planRelease(change: PlannedStates, flip: Flip, options: PlanOptions, otherPlanes: OtherPlanes): TransactionPlan;
  /** Plans an endpoint update: all steps lie before the commit record, except those that remove what no packet meets. */
  planUpdate(change: PlannedStates, options: PlanOptions, otherPlanes: OtherPlanes): TransactionPlan;
  /** The steps that bring a release on probation to one with newer endpoints, in both programs. */
  planNewerEndpoints(
    before: TransactionPlan,
    after: TransactionPlan,
    options: PlanOptions,
    otherPlanes: OtherPlanes,
  ): Plan;
  /** What the kernel lacks of a release on probation, besides its entry chains; undefined: nothing. Cheap. */
  missing(kernel: Kernel): Promise<string | undefined>;
  /** Whether the kernel shows a state: it falls back to it, whatever else it holds. */
  shows(observed: Observed, state: NodeState, ports: Ports): Promise<boolean>;
  /**
   * Reads what the kernel has of the plane beside the tables of iptables, if a state has its part.
   * @throws KernelError if a tool is not installed or fails
   */
  observeOwn(state: NodeState, kernel: Kernel): Promise<ObservedOtherPlanes>;
  /** The plane's part of a state as an operator can load it by hand, beside the rules of iptables: by file name; none without that part. */
  nativeFiles(state: NodeState): Readonly<Record<string, string>>;
  /** Why it cannot go in front of a kube-proxy; undefined: it can. @param proxies the modes that one has left traces of, at least one */
  refusesBeneath(proxies: readonly [Mode, ...Mode[]]): Problem | undefined;
}

/** What a kernel has beside the tables of iptables. */
export interface ObservedOtherPlanes {
  /** In mode ipvs. */
  readonly servers?: ObservedIpvs['servers'];
  /** In mode nftables; left out: there is no table. */
  readonly table?: ObservedNft | undefined;
}

/** The states between which a transaction leads. */
export interface PlannedStates {
  readonly now: NodeState;
  readonly desired: NodeState;
}
