import { addAll, compareText, type Family, type TableName, tableNames, type TableProgram } from '@sluice/bundle';
import { familiesOf, type NodeState, tableOf } from '../rollout/state.ts';
import { addressOf, approvedBy } from './approved.ts';
import { changedChains, leftOver } from './left-over.ts';
import { isService, onlyEndpointsDiffer, readService, usualIn, withoutTag } from './service.ts';
import { changedEndpoints, comparedEndpoints } from './changed-endpoints.ts';
import { rejected, waysIn } from './ways-in.ts';

/** Ways into Services, such as `ipv4 tcp 10.96.0.10 80`, that change between being served and being rejected. */
export interface FirstAndLast {
  /** Their Services come to a first endpoint, or are turned away in another manner. */
  readonly first: readonly string[];
  /** Their Services lose the last one. */
  readonly last: readonly string[];
}

/**
 * Whether a change only brings and takes endpoints, and brings Services their first one or takes their last one. Then filter changes,
 * too: what nat leads to a Service that has endpoints, filter rejects for one that has none. So it is told by the ways in: each that nat
 * loses is one that filter rejects from then on, and the other way round, and no rule changes that belongs to no such way.
 *
 * So it is with policy Local, where a Service that has endpoints elsewhere comes to the first one of this node or loses the last one.
 *
 * However many endpoints a Service loses when it loses all of them, they go late, as one would: several updates within bounds could take
 * them, too, and nobody can say of a Service that is to have none which ones it should keep meanwhile. Endpoints at addresses that what
 * stands does not allow are a matter of releases. A Service's rules besides endpoints cannot be compared where it had none; then nobody
 * was served by them, and they must look as those that are written for Services do (`usualIn`).
 * @param from what stands; settings besides tables are those of `desired`
 * @returns undefined when there is more to it, or no such Service
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
  const [rejects, allows] = [new Set(filter.come.map(rejected)), new Set(filter.gone.map(rejected))];
  const [last, first] = [new Set(nat.gone), new Set(nat.come)];
  const isWhole =
    [...last].every((way) => rejects.has(way) && !first.has(way)) && [...first].every((way) => allows.has(way));
  if (!isWhole) return undefined;
  for (const way of [...rejects, ...allows]) {
    if (way === undefined) return undefined;
    if (last.has(way) || first.has(way)) continue;
    // Rejected or dropped before and after: with policy Local that says whether other nodes have endpoints.
    if (!rejects.has(way) || !allows.has(way)) return undefined;
    first.add(way);
  }
  const named = (ways: ReadonlySet<string>): readonly string[] =>
    [...ways].map((way) => `${family} ${way}`).toSorted(compareText);
  return { first: named(first), last: named(last) };
}

const sameJumps = (a: TableProgram, b: TableProgram): boolean => a.jumps.join('\n') === b.jumps.join('\n');

/** The ways in that nat loses and gains; undefined when something else differs. */
function natChange(
  from: TableProgram,
  desired: TableProgram,
  isApproved: (address: string) => boolean,
): { readonly gone: readonly string[]; readonly come: readonly string[] } | undefined {
  const changed = changedChains(from, desired);
  const after = new Map(changed.come.filter(isService).map((name) => [withoutTag(name), name] as const));
  const met = new Set<string>();
  const compared = new Set<string>();
  for (const before of changed.gone.filter(isService)) {
    const fresh = after.get(withoutTag(before));
    if (fresh === undefined) continue;
    const [own, other] = [readService(before, from), readService(fresh, desired)];
    if (!own || !other || !onlyEndpointsDiffer(own, other, isApproved)) return undefined;
    met.add(before).add(fresh);
    for (const name of comparedEndpoints(own, other)) compared.add(name);
  }
  if (changedEndpoints(from, desired).some((name) => !compared.has(name))) return undefined;
  const isUsual = usualIn(from);
  for (const fresh of changed.come.filter((name) => isService(name) && !met.has(name))) {
    const rules = readService(fresh, desired);
    if (!rules || !isUsual(fresh, rules)) return undefined;
    if (![...rules.endpoints.keys()].every((one) => isApproved(addressOf(one)))) return undefined;
  }
  const rest = leftOver(from, desired, changed, met);
  if (!rest) return undefined;
  const gone = waysIn(rest.gone, from, desired);
  const come = waysIn(rest.come, desired, from);
  return gone && come && { gone, come };
}
