import { addressOfEndpoint, type Mode, type ProblemCode } from '@sluice/netfilter';
import type { Claim } from './declared.ts';
import { loopback } from '../flows/destinations.ts';
import { endpointsOf, localEndpoints, usable } from './connection.ts';
import type { FlowOutcome } from '../flows/flow.ts';
import type { FlowRow } from '../flows/flows.ts';
import type { NodeOf } from '../bundle/node.ts';

/** The documented differences of modes ipvs and nftables from mode iptables; `docs/problems.md` describes each. */
export type ModeDifference = Extract<
  ProblemCode,
  | 'DIFFERS_LOCAL_FALLBACK'
  | 'DIFFERS_LOCAL_INSIDE'
  | 'DIFFERS_NO_ENDPOINT'
  | 'DIFFERS_LOCALHOST'
  | 'DIFFERS_OTHER_PORTS'
  | 'DIFFERS_CLUSTER_IPS'
  | 'ANNOTATION_IGNORED'
  | 'DETECTOR_MISSING'
>;

/** A flow that mode iptables and another mode treat differently. */
export interface DifferingFlow {
  readonly row: Omit<FlowRow, 'outcomes'>;
  /** The declaration of the destination; undefined for one that no Service has. */
  readonly claim: Claim | undefined;
  readonly node: NodeOf;
  /** In mode iptables. */
  readonly first: FlowOutcome;
  /** In the other mode. */
  readonly second: FlowOutcome;
  readonly mode: Exclude<Mode, 'iptables'>;
}

/** @returns the documented difference; undefined if there is none, so that one of the outcomes is wrong */
export function differenceOf(differing: DifferingFlow): ModeDifference | undefined {
  const own = differing.mode === 'ipvs' ? reasonsOfIpvs : reasonsOfNft;
  return [...reasons, ...own].find(([, holds]) => holds(differing))?.[0];
}

const verdictOf = ({ branches }: FlowOutcome): string =>
  [...new Set(branches.map(({ verdict }) => verdict))].join(' or ');

/** The first match counts. Each matches only what it explains. */
type Reasons = readonly (readonly [ModeDifference, (differing: DifferingFlow) => boolean])[];

const reasons: Reasons = [
  [
    'DIFFERS_LOCALHOST',
    // Without node ports on loopback addresses no rule has to protect these from other hosts.
    ({ row, first, second }) =>
      verdictOf(second) === 'pass' &&
      (row.destination.kind === 'localhost' ||
        (row.destination.address === loopback[row.family] && verdictOf(first) === 'drop')),
  ],
];

const reasonsOfNft: Reasons = [
  [
    'DIFFERS_CLUSTER_IPS',
    ({ claim, first, second }) =>
      claim === undefined && verdictOf(first) === 'pass' && ['reject', 'drop'].includes(verdictOf(second)),
  ],
];

const reasonsOfIpvs: Reasons = [
  [
    'DIFFERS_OTHER_PORTS',
    // Every node carries the addresses, and the rule for health checks matches every protocol.
    ({ claim, first, second }) =>
      claim === undefined && verdictOf(first) === 'pass' && ['reject', 'accept'].includes(verdictOf(second)),
  ],
  [
    'DIFFERS_NO_ENDPOINT',
    (differing) => hasNoChoice(differing) && ['reject', 'drop', 'pass'].includes(verdictOf(differing.second)),
  ],
  [
    'DIFFERS_LOCAL_FALLBACK',
    (differing) => isLocalPolicy(differing) && ownOf(differing).length === 0 && verdictOf(differing.second) === 'dnat',
  ],
  [
    'DIFFERS_LOCAL_INSIDE',
    (differing) =>
      isLocalPolicy(differing) &&
      differing.claim?.role !== 'cluster' &&
      ['node', 'pod-here', 'pod-elsewhere', 'endpoint'].includes(differing.row.source.class) &&
      isSubset(differing.second, ownOf(differing)),
  ],
  ['ANNOTATION_IGNORED', ({ first, second }) => areWeighted(first, second)],
  [
    'DETECTOR_MISSING',
    // Without a pod CIDR mode ipvs distinguishes at least the node itself.
    ({ row, claim, first, second }) =>
      row.source.class === 'node' && claim?.role === 'cluster' && isSameBut(first, second, () => true),
  ],
];

function isLocalPolicy({ claim }: DifferingFlow): boolean {
  if (!claim) return false;
  const { internalPolicy, externalPolicy } = claim.declared.notes;
  return (claim.role === 'cluster' ? internalPolicy : externalPolicy) === 'Local';
}

function ownOf({ claim, node }: DifferingFlow): readonly string[] {
  return claim ? localEndpoints(endpointsOf(claim), node).map(({ text }) => text) : [];
}

/** No usable endpoint; or, with internal policy Local, none on the node and no use of endpoints of other nodes. */
function hasNoChoice(differing: DifferingFlow): boolean {
  const { claim, second } = differing;
  if (!claim) return false;
  if (usable(endpointsOf(claim)).length === 0) return true;
  const isAlone = claim.role === 'cluster' && isLocalPolicy(differing) && ownOf(differing).length === 0;
  return isAlone && verdictOf(second) === 'reject';
}

function isSubset({ branches }: FlowOutcome, own: readonly string[]): boolean {
  return branches.every(({ to }) => to !== undefined && own.includes(to));
}

/** The same endpoints, with shares by weight, which only mode ipvs has. */
function areWeighted(first: FlowOutcome, second: FlowOutcome): boolean {
  const isAlike = first.branches.every(({ share }) => Math.abs(share - first.branches[0]!.share) < 1e-6);
  const places = ({ branches }: FlowOutcome): string =>
    branches.map(({ to, masquerade }) => `${to} ${masquerade}`).join();
  return isAlike && second.scheduler !== undefined && places(first) === places(second);
}

/** Whether two outcomes differ at most in masquerading. @param may the endpoints for which they may differ */
export function isSameBut(first: FlowOutcome, second: FlowOutcome, may: (endpoint: string) => boolean): boolean {
  return (
    first.affinity === second.affinity &&
    first.branches.length === second.branches.length &&
    first.branches.every((branch, at) => {
      const other = second.branches[at]!;
      const isAlike = branch.verdict === other.verdict && branch.to === other.to;
      const sameShare = Math.abs(branch.share - other.share) < 1e-6;
      return (
        isAlike && sameShare && (branch.masquerade === other.masquerade || may(addressOfEndpoint(branch.to ?? '')))
      );
    })
  );
}
