import { compareText, differing, type Family, type TableName, type TableProgram, tableNames } from '@sluice/bundle';
import { familiesOf, type NodeState, tableOf } from '../rollout/state.ts';
import { addressOf, approvedBy } from './approved.ts';
import { isTagged } from './entries.ts';
import { isEndpoint, isService, onlyEndpointsDiffer, readService, withoutTag } from './service.ts';
import { changedEndpoints, comparedEndpoints } from './strays.ts';

/** Ways into Services, such as `ipv4 tcp 10.96.0.10 80`, that change between being served and being rejected. */
export interface Ends {
  /** Their Services come to a first endpoint. */
  readonly first: readonly string[];
  /** Their Services lose the last one. */
  readonly last: readonly string[];
}

/**
 * Whether a change only brings and takes endpoints, and brings Services their first one or takes their last one. Then filter changes,
 * too: what nat leads to a Service that has endpoints, filter rejects for one that has none. So it is told by the ways in: each that nat
 * loses is one that filter rejects from then on, and the other way round, and no rule changes that belongs to no such way.
 *
 * A Service that loses more than one endpoint when it loses all of them is a matter of releases, as are endpoints at addresses that
 * what stands does not allow. Its rules besides endpoints cannot be compared where it had none; then nobody was served by them.
 * @param from what stands; settings besides tables are those of `goal`
 * @returns undefined when there is more to it, or no such Service
 */
export function endsOf(from: NodeState, goal: NodeState): Ends | undefined {
  const isApproved = approvedBy(from);
  const ends = { first: [] as string[], last: [] as string[] };
  for (const family of familiesOf(goal)) {
    const own = ofFamily(family, from, goal, isApproved);
    if (!own) return undefined;
    ends.first.push(...own.first);
    ends.last.push(...own.last);
  }
  return ends.first.length + ends.last.length === 0 ? undefined : ends;
}

function ofFamily(
  family: Family,
  from: NodeState,
  goal: NodeState,
  isApproved: (address: string) => boolean,
): Ends | undefined {
  const tables = (name: TableName): readonly [TableProgram, TableProgram] => [
    tableOf(from, family, name),
    tableOf(goal, family, name),
  ];
  if (tableNames.some((name) => !sameJumps(...tables(name)))) return undefined;
  const nat = natChange(...tables('nat'), isApproved);
  const filter = leftOver(...tables('filter'), new Set());
  if (!nat) return undefined;
  const [rejects, allows] = [filter.come.map(rejected), filter.gone.map(rejected)];
  const [last, first] = [new Set(nat.gone), new Set(nat.come)];
  const known = new Set([...last, ...first]);
  const isWhole =
    [...last].every((way) => rejects.includes(way) && !first.has(way)) &&
    [...first].every((way) => allows.includes(way)) &&
    [...rejects, ...allows].every((way) => way !== undefined && known.has(way));
  if (!isWhole) return undefined;
  const named = (ways: ReadonlySet<string>): readonly string[] =>
    [...ways].map((way) => `${family} ${way}`).toSorted(compareText);
  return { first: named(first), last: named(last) };
}

const sameJumps = (a: TableProgram, b: TableProgram): boolean => a.jumps.join('\n') === b.jumps.join('\n');

/** The ways in that nat loses and gains; undefined when something else differs. */
function natChange(
  from: TableProgram,
  goal: TableProgram,
  isApproved: (address: string) => boolean,
): { readonly gone: readonly string[]; readonly come: readonly string[] } | undefined {
  const changed = changedChains(from, goal);
  const after = new Map(changed.come.filter(isService).map((name) => [withoutTag(name), name] as const));
  const met = new Set<string>();
  const compared = new Set<string>();
  for (const before of changed.gone.filter(isService)) {
    const fresh = after.get(withoutTag(before));
    const own = readService(before, from);
    if (fresh === undefined) {
      if (own.endpoints.size > 1) return undefined;
      continue;
    }
    const other = readService(fresh, goal);
    if (!onlyEndpointsDiffer(own, other, isApproved)) return undefined;
    met.add(before).add(fresh);
    for (const name of comparedEndpoints(own, other)) compared.add(name);
  }
  if (changedEndpoints(from, goal).some((name) => !compared.has(name))) return undefined;
  for (const fresh of changed.come.filter((name) => isService(name) && !met.has(name)))
    if (![...readService(fresh, goal).endpoints].every((one) => isApproved(addressOf(one)))) return undefined;
  const rest = leftOver(from, goal, met);
  const gone = waysIn(rest.gone, goal);
  const come = waysIn(rest.come, from);
  return gone && come && { gone, come };
}

/** A rule that only one of two tables has, with the chain that it stands in, both without what contents decide. */
interface Rule {
  readonly chain: string;
  readonly body: string;
}

function changedChains(
  from: TableProgram,
  goal: TableProgram,
): { readonly gone: readonly string[]; readonly come: readonly string[] } {
  const changed = differing(from.chains, goal.chains).filter(
    (name) => from.chains.get(name)?.join('\n') !== goal.chains.get(name)?.join('\n'),
  );
  return {
    gone: changed.filter((name) => from.chains.has(name)),
    come: changed.filter((name) => goal.chains.has(name)),
  };
}

/**
 * What is left of two tables when rules that both have are taken away: their places follow from all of them in layout `tree`, as do the
 * forks that lead there.
 * @param met chains that are understood already
 */
function leftOver(
  from: TableProgram,
  goal: TableProgram,
  met: ReadonlySet<string>,
): { readonly gone: readonly Rule[]; readonly come: readonly Rule[] } {
  const changed = changedChains(from, goal);
  const rules = (table: TableProgram, names: readonly string[]): readonly Rule[] =>
    names.filter((name) => !met.has(name) && !isEndpoint(name)).flatMap((name) => rulesOf(table, name));
  const [gone, come] = [rules(from, changed.gone), rules(goal, changed.come)];
  return { gone: without(gone, come), come: without(come, gone) };
}

const isFork = (rule: string): boolean => / -[jg] SLUICE-[RT]-\S+$/.test(rule);

function rulesOf(table: TableProgram, name: string): readonly Rule[] {
  return (table.chains.get(name) ?? [])
    .filter((rule) => !isFork(rule))
    .map((rule) => ({
      chain: plainName(name),
      body: rule.slice(3 + name.length).replace(/(?<= -[jg] )SLU\S+$/, plainName),
    }));
}

const plainName = (name: string): string =>
  !isTagged(name) ? name : /^SLUICE-[RT]-/.test(name) ? name.slice(0, 8) : withoutTag(name);

function without(rules: readonly Rule[], others: readonly Rule[]): readonly Rule[] {
  const keyOf = ({ chain, body }: Rule): string => `${chain}${body}`;
  const counts = new Map<string, number>();
  for (const rule of others) counts.set(keyOf(rule), (counts.get(keyOf(rule)) ?? 0) + 1);
  return rules.filter((rule) => {
    const left = counts.get(keyOf(rule)) ?? 0;
    counts.set(keyOf(rule), left - 1);
    return left <= 0;
  });
}

/** Chains of one Service: what stands in them goes with its last endpoint. */
const isOwn = (name: string): boolean => /^(?:SLU|KUBE)-(?:SV[CL]|EXT|FW)-/.test(name);

/**
 * The ways into Services that rules of nat are; rules in the chains of a Service that the other table lacks go with its ways.
 * @returns undefined when a rule is neither
 */
function waysIn(rules: readonly Rule[], other: TableProgram): readonly string[] | undefined {
  const kept = new Set([...other.chains.keys()].filter(isOwn).map(withoutTag));
  const ways: string[] = [];
  for (const { chain, body } of rules) {
    if (isOwn(chain)) {
      if (kept.has(chain)) return undefined;
      continue;
    }
    const target = / -j (\S+)$/.exec(body)?.[1] ?? '';
    const way = wayOf(body);
    if (way === undefined || !isOwn(target) || kept.has(target)) return undefined;
    ways.push(way);
  }
  return ways;
}

/** The way in that a rule of filter rejects or drops. */
function rejected({ body }: Rule): string | undefined {
  return / -j (?:REJECT(?: --reject-with \S+)?|DROP)$/.test(body) ? wayOf(body) : undefined;
}

/** `tcp 10.96.0.10 80`; of a node port `tcp * 30080`. */
function wayOf(body: string): string | undefined {
  const protocol = / -p (\S+) /.exec(body)?.[1];
  const port = / --dport (\d+) /.exec(body)?.[1];
  if (protocol === undefined || port === undefined || body.includes(' ! ')) return undefined;
  const address = / -d (\S+) /.exec(body)?.[1]?.replace(/\/(32|128)$/, '');
  return `${protocol} ${address ?? '*'} ${port}`;
}
