import type { ProblemCode } from '@sluice/bundle';
import type { Claim } from '../declared.ts';
import { loopback } from '../destinations.ts';
import { endpointsOf, hostOf, localEndpoints, usable } from '../expected.ts';
import type { FlowOutcome } from '../flow.ts';
import type { FlowRow } from '../flows.ts';
import type { NodeOf } from '../node.ts';

/** What is published of how mode ipvs serves otherwise than mode iptables: `docs/problems.md` says each in a sentence. */
export type Difference = Extract<
  ProblemCode,
  | 'DIFFERS_LOCAL_FALLBACK'
  | 'DIFFERS_LOCAL_INSIDE'
  | 'DIFFERS_NO_ENDPOINT'
  | 'DIFFERS_LOCALHOST'
  | 'DIFFERS_OTHER_PORTS'
  | 'ANNOTATION_IGNORED'
  | 'DETECTOR_MISSING'
>;

/** A flow that mode iptables and mode ipvs treat differently. */
export interface Differing {
  readonly row: Omit<FlowRow, 'outcomes'>;
  /** Who declares the destination; undefined: nobody. */
  readonly claim: Claim | undefined;
  readonly node: NodeOf;
  /** In mode iptables. */
  readonly first: FlowOutcome;
  /** In mode ipvs. */
  readonly second: FlowOutcome;
}

/** @returns the published reason; undefined: there is none, and one of the two is wrong */
export function differenceOf(differing: Differing): Difference | undefined {
  return reasons.find(([, holds]) => holds(differing))?.[0];
}

const verdictOf = ({ branches }: FlowOutcome): string =>
  [...new Set(branches.map(({ verdict }) => verdict))].join(' or ');

/** The first that holds is given. Each asks for what it explains and nothing more. */
const reasons: readonly (readonly [Difference, (differing: Differing) => boolean])[] = [
  [
    'DIFFERS_LOCALHOST',
    // Where node ports do not answer on the loopback address, neighbours need not be kept from it.
    ({ row, first, second }) =>
      verdictOf(second) === 'pass' &&
      (row.destination.kind === 'localhost' ||
        (row.destination.address === loopback[row.family] && verdictOf(first) === 'drop')),
  ],
  [
    'DIFFERS_OTHER_PORTS',
    // Addresses are on every node, and the rule for health checks asks for no protocol.
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
    // Without a value to tell pods by, mode ipvs knows at least the node itself.
    ({ row, claim, first, second }) =>
      row.source.class === 'node' && claim?.role === 'cluster' && isSameBut(first, second, () => true),
  ],
];

function isLocalPolicy({ claim }: Differing): boolean {
  if (!claim) return false;
  const { internalPolicy, externalPolicy } = claim.declared.notes;
  return (claim.role === 'cluster' ? internalPolicy : externalPolicy) === 'Local';
}

function ownOf({ claim, node }: Differing): readonly string[] {
  return claim ? localEndpoints(endpointsOf(claim), node).map(({ text }) => text) : [];
}

/** No endpoint at all; or under internal policy Local none on the node, and none that others could be sent to. */
function hasNoChoice(differing: Differing): boolean {
  const { claim, second } = differing;
  if (!claim) return false;
  if (usable(endpointsOf(claim)).length === 0) return true;
  const isAlone = claim.role === 'cluster' && isLocalPolicy(differing) && ownOf(differing).length === 0;
  return isAlone && verdictOf(second) === 'reject';
}

function isSubset({ branches }: FlowOutcome, own: readonly string[]): boolean {
  return branches.every(({ to }) => to !== undefined && own.includes(to));
}

/** The same endpoints, and shares that only mode ipvs can give. */
function areWeighted(first: FlowOutcome, second: FlowOutcome): boolean {
  const isAlike = first.branches.every(({ share }) => Math.abs(share - first.branches[0]!.share) < 1e-6);
  const places = ({ branches }: FlowOutcome): string =>
    branches.map(({ to, masquerade }) => `${to} ${masquerade}`).join();
  return isAlike && second.scheduler !== undefined && places(first) === places(second);
}

/** Whether two outcomes differ in nothing but who is masqueraded. @param may for which endpoints they may */
export function isSameBut(first: FlowOutcome, second: FlowOutcome, may: (endpoint: string) => boolean): boolean {
  return (
    first.affinity === second.affinity &&
    first.branches.length === second.branches.length &&
    first.branches.every((branch, at) => {
      const other = second.branches[at]!;
      const isAlike = branch.verdict === other.verdict && branch.to === other.to;
      const sameShare = Math.abs(branch.share - other.share) < 1e-6;
      return isAlike && sameShare && (branch.masquerade === other.masquerade || may(hostOf(branch.to ?? '')));
    })
  );
}
