import {
  addAll,
  compareText,
  type Comparison,
  type FrontendChange,
  type Service,
  type Services,
} from '@sluice/netfilter';
import type { NodeState } from '../../ports/node-state.ts';
import { areApproved, type Bounds, type Endpoints, isUpdate, losesFew, serving } from './bounds.ts';

/** Frontends, such as `ipv4 tcp 10.96.0.10 80`, that change between served and rejected. */
export interface FirstAndLast {
  /** Their Services get a first endpoint, or their packets are dropped instead of rejected or the other way round. */
  readonly first: readonly string[];
  /** Their Services lose the last endpoint. */
  readonly last: readonly string[];
}

/**
 * Finds out whether a change only adds and removes endpoints, among them the first or the last one of a Service. Then the treatment of
 * its frontends changes, too: each that is not served any more is rejected now, and the reverse, and everything else is unchanged. The
 * same goes for policy Local and the first or last endpoint of this node, while other nodes have endpoints.
 *
 * A Service that loses all its endpoints at once loses them late, however many they are: several updates within bounds could remove them,
 * too, and there is no rule by which to choose the ones to keep. Endpoints at addresses that the active generation does not allow need a
 * release. A Service without endpoints has no rules to compare with, but also no clients that are served by them; its new rules must look
 * like those that `sluice render` writes (`isUsual`).
 * @param comparison of the active state, whose other settings equal those of the desired one
 * @returns undefined if the change is more than that, or there is no such Service
 */
export function firstAndLastOf(comparison: Comparison<NodeState>, bounds: Bounds): FirstAndLast | undefined {
  const found = { first: [] as string[], last: [] as string[] };
  for (const change of comparison.changed) {
    const { before, after, fits } = change;
    const edge = before && after ? edgeOf(before, after) : undefined;
    if (!edge && isUpdate(change, bounds)) continue;
    if (!before || !after || !edge || !fits || !areApproved(before, after, bounds)) return undefined;
    addAll(found[edge], before.frontends);
  }
  for (const change of comparison.frontends ?? [undefined]) {
    const end = change && endOf(change);
    if (!end) return undefined;
    found[end].push(change.frontend);
  }
  // After the others: it looks for other Services among all chains.
  for (const { after } of comparison.added)
    if (!after || !areApproved(undefined, after, bounds) || !isUsual(after, comparison.from)) return undefined;
  if (found.first.length + found.last.length === 0) return undefined;
  // A frontend may have two lists of endpoints, with a first or last one each.
  const each = (frontends: readonly string[]): readonly string[] => [...new Set(frontends)].toSorted(compareText);
  return { first: each(found.first), last: each(found.last) };
}

/** Whether a frontend is served from now on, or rejected; undefined if neither of it is the whole change. */
function endOf({ served, refused }: FrontendChange): keyof FirstAndLast | undefined {
  if (served.before) return !served.after && refused.after ? 'last' : undefined;
  if (served.after) return refused.before ? 'first' : undefined;
  // Rejected before and dropped after, or the reverse: policy Local, by whether other nodes have endpoints.
  return refused.before && refused.after ? 'first' : undefined;
}

/**
 * Whether a Service that has its frontends by itself gets its first endpoint or loses the last one.
 *
 * With policy Local it has the endpoints of this node, or, if there are none, those of all other nodes (kubernetes/kubernetes#97081). It
 * then changes from one group to the other, however large they are. For external traffic that is the first or last endpoint of this node.
 * Nothing shows the policy of an address inside the cluster; it changes late in both directions, and is served meanwhile.
 */
function edgeOf(before: Service, after: Service): keyof FirstAndLast | undefined {
  const [had, has] = [serving(before), serving(after)];
  if (had.size === 0 || has.size === 0) {
    if (had.size === has.size) return undefined;
    return had.size === 0 ? 'first' : 'last';
  }
  if (losesFew(had, has)) return undefined;
  const [was, is] = [countHere(had), countHere(has)];
  if (was === had.size && is === 0) return 'last';
  if (was > 0 || is < has.size) return undefined;
  return before.isLocalOutside ? 'first' : 'last';
}

const countHere = (endpoints: Endpoints): number =>
  [...endpoints.values()].filter(({ isHere }) => isHere === true).length;

/**
 * Whether a Service that gets its first endpoints looks like one of `sluice render`: before it chooses it may only masquerade; if the
 * Service has endpoints of this node or of all nodes already (policy Local), new ones are treated like those; and its endpoints reach
 * themselves if those of other Services do.
 */
function isUsual(service: Service, active: Services): boolean {
  const endpoints = [...service.endpoints.values()];
  const remembers = service.affinityOrder.length > 0;
  if (!service.onlyMasquerades || !endpoints.every(({ remembersClients }) => remembersClients === remembers))
    return false;
  const { siblingKey } = service;
  if (siblingKey !== undefined && active.has(siblingKey)) {
    const sibling = active.service(siblingKey);
    const forms = new Set([...(sibling?.endpoints.values() ?? [])].map(({ form }) => form));
    return service.choice === sibling?.choice && endpoints.every(({ form }) => forms.has(form));
  }
  const [known] = active.any(service.family)?.endpoints.values() ?? [];
  return !known || endpoints.every(({ masqueradesItself }) => masqueradesItself === known.masqueradesItself);
}
