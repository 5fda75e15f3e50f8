import { addAll, compareText, type Family, type TableName, tableNames, type TableProgram } from '@sluice/netfilter';
import { familiesOf, type NodeState, tableOf } from '../ports/node-state.ts';
import { addressOf, approvedBy } from './approved.ts';
import { changedChains, leftOver } from './rule-differences.ts';
import { isService, onlyEndpointsDiffer, readService, usualIn, withoutTag } from './service-rules.ts';
import { changedEndpoints, comparedEndpoints } from './changed-endpoints.ts';
import { rejectedFrontend, natFrontends } from './frontend-rules.ts';

/** Frontends, such as `ipv4 tcp 10.96.0.10 80`, that change between served and rejected. */
export interface FirstAndLast {
  /** Their Services get a first endpoint, or their packets are dropped instead of rejected or the other way round. */
  readonly first: readonly string[];
  /** Their Services lose the last endpoint. */
  readonly last: readonly string[];
}

/**
 * Finds out whether a change only adds and removes endpoints, among them the first or the last one of a Service. Then filter changes, too:
 * nat leads the packets of a frontend to a Service with endpoints, filter rejects them for one without. So the frontends decide: each
 * frontend that nat loses is one that filter now rejects, and the reverse, and every other rule is unchanged. The same goes for policy
 * Local and the first or last endpoint of this node, while other nodes have endpoints.
 *
 * A Service that loses all its endpoints at once loses them late, however many they are: several updates within bounds could remove them,
 * too, and there is no rule by which to choose the ones to keep. Endpoints at addresses that the active generation does not allow need a
 * release. A Service without endpoints has no rules to compare with, but also no clients that are served by them; its new rules must look
 * like those that `sluice render` writes (`usualIn`).
 * @param from the active state; its settings besides tables equal those of `desired`
 * @returns undefined if the change is more than that, or there is no such Service
 */
export function firstAndLastOf(from: NodeState, desired: NodeState): FirstAndLast | undefined {
  const isApproved = approvedBy(from);
  const edges = { first: [] as string[], last: [] as string[] };
  for (const family of familiesOf(desired)) {
    const own = ofFamily(family, from, desired, isApproved);
    if (!own) return undefined;
    addAll(edges.first, own.first);
    addAll(edges.last, own.last);
  }
  return edges.first.length + edges.last.length === 0 ? undefined : edges;
}

function ofFamily(
  family: Family,
  from: NodeState,
  desired: NodeState,
  isApproved: (address: string) => boolean,
): FirstAndLast | undefined {
  const tables = (name: TableName): readonly [TableProgram, TableProgram] => [
    tableOf(from, family, name),
    tableOf(desired, family, name),
  ];
  if (tableNames.some((name) => !sameJumps(...tables(name)))) return undefined;
  const nat = natChange(...tables('nat'), isApproved);
  const filters = tables('filter');
  const filter = nat && leftOver(...filters, changedChains(...filters), new Set());
  if (!filter) return undefined;
  const [rejects, allows] = [
    new Set(filter.added.map(rejectedFrontend)),
    new Set(filter.removed.map(rejectedFrontend)),
  ];
  const [last, first] = [new Set(nat.removed), new Set(nat.added)];
  const isWhole =
    [...last].every((frontend) => rejects.has(frontend) && !first.has(frontend)) &&
    [...first].every((frontend) => allows.has(frontend));
  if (!isWhole) return undefined;
  for (const frontend of [...rejects, ...allows]) {
    if (frontend === undefined) return undefined;
    if (last.has(frontend) || first.has(frontend)) continue;
    // Rejected before and dropped after, or the reverse: policy Local, by whether other nodes have endpoints.
    if (!rejects.has(frontend) || !allows.has(frontend)) return undefined;
    first.add(frontend);
  }
  const named = (frontends: ReadonlySet<string>): readonly string[] =>
    [...frontends].map((frontend) => `${family} ${frontend}`).toSorted(compareText);
  return { first: named(first), last: named(last) };
}

const sameJumps = (a: TableProgram, b: TableProgram): boolean => a.jumps.join('\n') === b.jumps.join('\n');

/** The frontends that nat loses and gains; undefined if other rules differ. */
function natChange(
  from: TableProgram,
  desired: TableProgram,
  isApproved: (address: string) => boolean,
): { readonly removed: readonly string[]; readonly added: readonly string[] } | undefined {
  const changed = changedChains(from, desired);
  const after = new Map(changed.added.filter(isService).map((name) => [withoutTag(name), name] as const));
  const met = new Set<string>();
  const compared = new Set<string>();
  for (const before of changed.removed.filter(isService)) {
    const fresh = after.get(withoutTag(before));
    if (fresh === undefined) continue;
    const [own, other] = [readService(before, from), readService(fresh, desired)];
    if (!own || !other || !onlyEndpointsDiffer(own, other, isApproved)) return undefined;
    met.add(before).add(fresh);
    for (const name of comparedEndpoints(own, other)) compared.add(name);
  }
  if (changedEndpoints(from, desired).some((name) => !compared.has(name))) return undefined;
  const isUsual = usualIn(from);
  for (const fresh of changed.added.filter((name) => isService(name) && !met.has(name))) {
    const rules = readService(fresh, desired);
    if (!rules || !isUsual(fresh, rules)) return undefined;
    if (![...rules.endpoints.keys()].every((one) => isApproved(addressOf(one)))) return undefined;
  }
  const rest = leftOver(from, desired, changed, met);
  if (!rest) return undefined;
  const removed = natFrontends(rest.removed, from, desired);
  const added = natFrontends(rest.added, desired, from);
  return removed && added && { removed, added };
}
