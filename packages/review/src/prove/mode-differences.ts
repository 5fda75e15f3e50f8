import { localEndpoints, usable } from '../bundle/endpoints.ts';
import { addressOfEndpoint, type Mode, modes, type ProblemCode } from '@sluice/netfilter';
import type { DeclaredFrontend } from './declared.ts';
import { loopback } from '../flows/destinations.ts';
import { endpointsOf } from './connection.ts';
import type { FlowOutcome } from '../flows/flow.ts';
import type { FlowRow } from '../flows/flows.ts';
import type { NodeOf } from '../bundle/node.ts';

/** The documented differences of modes ipvs and nftables; `docs/problems.md` describes each. */
export type ModeDifference = Extract<
  ProblemCode,
  | 'DIFFERS_LOCAL_FALLBACK'
  | 'DIFFERS_LOCAL_INSIDE'
  | 'DIFFERS_NO_ENDPOINT'
  | 'DIFFERS_LOCALHOST'
  | 'DIFFERS_OTHER_PORTS'
  | 'DIFFERS_CLUSTER_IPS'
  | 'DIFFERS_CLOSED_NODE_PORTS'
  | 'DIFFERS_HEALTH_CHECK'
  | 'ANNOTATION_IGNORED'
  | 'DIFFERS_SCHEDULER'
  | 'DETECTOR_MISSING'
>;

/** A flow that two modes treat differently. */
interface DifferingFlow {
  readonly row: Omit<FlowRow, 'outcomes'>;
  /** The declaration of the destination; undefined for one that no Service has. */
  readonly frontend: DeclaredFrontend | undefined;
  readonly node: NodeOf;
  /** The two modes with their outcomes. */
  readonly outcomes: Readonly<Partial<Record<Mode, FlowOutcome>>>;
}

/** @returns the documented difference; undefined if there is none, so that one of the outcomes is wrong */
export function differenceOf({ outcomes, ...flow }: DifferingFlow): ModeDifference | undefined {
  const sides = modes.flatMap((mode): readonly Side[] => {
    const own = outcomes[mode];
    const other = modes.flatMap((one) => (one === mode ? [] : (outcomes[one] ?? [])))[0];
    return own && other ? [{ ...flow, mode, own, other }] : [];
  });
  return reasons.find(({ of, holds }) => sides.some((side) => of.includes(side.mode) && holds(side)))?.code;
}

/** A differing flow as one of the modes sees it. */
interface Side extends Omit<DifferingFlow, 'outcomes'> {
  readonly mode: Mode;
  readonly own: FlowOutcome;
  /** In the other mode. */
  readonly other: FlowOutcome;
}

/** `dnat`, `drop or pass`. */
export const verdictOf = ({ branches }: FlowOutcome): string =>
  [...new Set(branches.map(({ verdict }) => verdict))].join(' or ');

/** Why a mode differs from the others. */
interface Reason {
  readonly code: ModeDifference;
  readonly of: readonly Mode[];
  readonly holds: (side: Side) => boolean;
}

/** The first match counts. Each matches only what it explains. */
const reasons: readonly Reason[] = [
  {
    // Without node ports on loopback addresses no rule has to protect these from other hosts.
    code: 'DIFFERS_LOCALHOST',
    of: ['ipvs', 'nftables'],
    holds: ({ row, own, other }) =>
      verdictOf(own) === 'pass' &&
      (row.destination.kind === 'localhost'
        ? verdictOf(other) === 'dnat'
        : row.destination.address === loopback[row.family] && verdictOf(other) === 'drop'),
  },
  {
    code: 'DIFFERS_CLUSTER_IPS',
    of: ['nftables'],
    holds: ({ frontend, own, other }) =>
      frontend === undefined && verdictOf(other) === 'pass' && ['reject', 'drop'].includes(verdictOf(own)),
  },
  {
    code: 'DIFFERS_HEALTH_CHECK',
    of: ['nftables'],
    holds: ({ frontend, own, other }) =>
      frontend?.role === 'health-check' && verdictOf(own) === 'pass' && verdictOf(other) === 'accept',
  },
  {
    // Every node carries the addresses, and the rule for health checks matches every protocol.
    code: 'DIFFERS_OTHER_PORTS',
    of: ['ipvs'],
    holds: ({ frontend, own, other }) =>
      frontend === undefined && verdictOf(other) === 'pass' && ['reject', 'accept'].includes(verdictOf(own)),
  },
  {
    code: 'DIFFERS_NO_ENDPOINT',
    of: ['ipvs'],
    holds: (side) => hasNoChoice(side) && ['reject', 'drop', 'pass'].includes(verdictOf(side.own)),
  },
  {
    // Rules of mode iptables that refuse packets match every address of the node, not only those with open node ports.
    code: 'DIFFERS_CLOSED_NODE_PORTS',
    of: ['ipvs', 'nftables'],
    holds: ({ frontend, own, other }) =>
      frontend?.role === 'node-port' && verdictOf(own) === 'pass' && ['reject', 'drop'].includes(verdictOf(other)),
  },
  {
    // Source ranges come first, and rules for the node itself are those for all others.
    code: 'DIFFERS_NO_ENDPOINT',
    of: ['nftables'],
    holds: (side) => isOuter(side) && hasNoEndpoint(side) && ['reject', 'drop'].includes(verdictOf(side.own)),
  },
  {
    code: 'DIFFERS_LOCAL_FALLBACK',
    of: ['ipvs'],
    holds: (side) => isLocalPolicy(side) && ownOf(side).length === 0 && verdictOf(side.own) === 'dnat',
  },
  {
    code: 'DIFFERS_LOCAL_INSIDE',
    of: ['ipvs'],
    holds: (side) =>
      isLocalPolicy(side) &&
      side.frontend?.role !== 'cluster' &&
      ['node', 'pod-here', 'pod-elsewhere', 'endpoint'].includes(side.row.source.class) &&
      isSubset(side.own, ownOf(side)),
  },
  {
    code: 'DIFFERS_SCHEDULER',
    of: ['nftables'],
    holds: (side) => side.own.scheduler !== undefined && isEvened(side),
  },
  { code: 'ANNOTATION_IGNORED', of: ['nftables'], holds: isEvened },
  {
    code: 'ANNOTATION_IGNORED',
    of: ['ipvs'],
    holds: (side) => side.own.scheduler !== undefined && isEvened(side),
  },
  {
    // Without a pod CIDR mode ipvs distinguishes at least the node itself.
    code: 'DETECTOR_MISSING',
    of: ['ipvs'],
    holds: ({ row, frontend, own, other }) =>
      row.source.class === 'node' && frontend?.role === 'cluster' && isSameBut(other, own, () => true),
  },
];

/** The same endpoints, with shares by weight or by the slots of a table, where those of the other mode are equal. */
function isEvened({ row, frontend, node, own, other }: Side): boolean {
  const branches = own.branches.map((branch, at) => ({ ...branch, share: other.branches[at]?.share ?? 0 }));
  const home = frontend?.declared.notes.endpoints.find(
    ({ text }) => addressOfEndpoint(text) === row.source.address,
  )?.node;
  // What `isUnobservable` leaves out where shares are equal.
  const mayDiffer = (host: string): boolean =>
    row.source.class === 'node'
      ? frontend?.role !== 'cluster'
      : row.source.class === 'endpoint' && host === row.source.address && home !== node.name;
  return areEqual(other) && isSameBut(other, { ...own, branches }, mayDiffer);
}

const areEqual = ({ branches }: FlowOutcome): boolean =>
  branches.every(({ share }) => Math.abs(share - branches[0]!.share) < 1e-6);

function isLocalPolicy({ frontend }: Side): boolean {
  if (!frontend) return false;
  const { internalPolicy, externalPolicy } = frontend.declared.notes;
  return (frontend.role === 'cluster' ? internalPolicy : externalPolicy) === 'Local';
}

function ownOf({ frontend, node }: Side): readonly string[] {
  return frontend ? localEndpoints(endpointsOf(frontend), node).map(({ text }) => text) : [];
}

const hasNoEndpoint = ({ frontend }: Side): boolean =>
  frontend !== undefined && usable(endpointsOf(frontend)).length === 0;

/** External IPs and load-balancer addresses. */
const isOuter = ({ frontend }: Side): boolean => frontend?.role === 'external' || frontend?.role === 'load-balancer';

/** No usable endpoint; or, with internal policy Local, none on the node and no use of endpoints of other nodes. */
function hasNoChoice(side: Side): boolean {
  const { frontend, own } = side;
  if (!frontend) return false;
  if (hasNoEndpoint(side)) return true;
  const isAlone = frontend.role === 'cluster' && isLocalPolicy(side) && ownOf(side).length === 0;
  return isAlone && verdictOf(own) === 'reject';
}

function isSubset({ branches }: FlowOutcome, own: readonly string[]): boolean {
  return branches.every(({ to }) => to !== undefined && own.includes(to));
}

/**
 * Whether two outcomes differ at most in masquerading. Rules give probabilities to ten digits, and groups of endpoints multiply them.
 * @param may the endpoints, `10.244.1.5:8080`, for which they may differ
 */
export function isSameBut(
  first: Pick<FlowOutcome, 'branches' | 'affinity'>,
  second: typeof first,
  may: (to: string) => boolean = () => false,
): boolean {
  return (
    first.affinity === second.affinity &&
    first.branches.length === second.branches.length &&
    first.branches.every((branch, at) => {
      const other = second.branches[at]!;
      const isAlike = branch.verdict === other.verdict && branch.to === other.to;
      const sameShare = Math.abs(branch.share - other.share) < 1e-6;
      return isAlike && sameShare && (branch.masquerade === other.masquerade || may(branch.to ?? ''));
    })
  );
}
