import {
  compareText,
  differing,
  type Family,
  type FamilyProgram,
  replaceChains,
  type TableProgram,
} from '@sluice/netfilter';
import { familiesOf, type NodeState } from '../ports/node-state.ts';
import { approvedBy } from './approved.ts';
import { endpointsText } from './endpoints-text.ts';
import { isTagged, isTree } from '../plan/entries.ts';
import { overlayServers } from './overlay-servers.ts';
import { plainName } from './rule-differences.ts';
import {
  isEndpoint,
  isService,
  type LossBound,
  onlyEndpointsDiffer,
  readService,
  withoutTag,
} from './service-rules.ts';
import { changedEndpoints, comparedEndpoints } from './changed-endpoints.ts';

/**
 * Overlays newer endpoints on a state: each of its Services gets the endpoints of another state, if that is an endpoint update within
 * bounds (`onlyEndpointsDiffer`). Services that are added, removed or changed otherwise need a release.
 *
 * Both states must have the same layout and mode; otherwise nothing is taken.
 * @returns `base` itself if it takes nothing. A table that then equals that of `offered` is the same object
 */
export function overlayEndpoints(
  base: NodeState,
  offered: NodeState,
  { declined = new Map(), replacesAll = false, inKernel = false }: OverlayOptions = {},
): NodeState {
  if (isTree(base) !== isTree(offered) || Boolean(base.ipvs) !== Boolean(offered.ipvs)) return base;
  const isApproved = inKernel ? () => true : approvedBy(base);
  const loss: LossBound = inKernel ? 'any' : replacesAll ? 'most' : 'few';
  if (base.ipvs && offered.ipvs) {
    const ipvs = overlayServers(base.ipvs, offered.ipvs, { isApproved, declined, loss });
    return ipvs === base.ipvs ? base : { ...base, ipvs };
  }
  const families: { -readonly [F in Family]?: FamilyProgram } = { ...base.families };
  for (const family of familiesOf(base)) {
    const [own, other] = [base.families[family] as FamilyProgram, offered.families[family]];
    const nat = other ? overlayTable(own.nat, other.nat, { isApproved, declined, loss, family }) : own.nat;
    if (nat !== own.nat) families[family] = { filter: own.filter, nat };
  }
  const isSame = familiesOf(base).every((family) => families[family] === base.families[family]);
  return isSame ? base : { ...base, families };
}

/** Exceptions from the bounds. */
export interface OverlayOptions {
  /** Sets of endpoints that are not taken, by Service (`EndpointChange.key`). */
  readonly declined?: ReadonlyMap<string, string>;
  /** A Service may lose all its endpoints if it gets about as many others (`keepsMost`). */
  readonly replacesAll?: boolean;
  /** The offered endpoints are in this kernel already: no bound holds for them. */
  readonly inKernel?: boolean;
}

interface TableBounds extends Required<Pick<OverlayOptions, 'declined'>> {
  readonly loss: LossBound;
  readonly isApproved: (address: string) => boolean;
  readonly family: Family;
}

/** `overlayEndpoints` for the nat table of one family. */
function overlayTable(base: TableProgram, offered: TableProgram, bounds: TableBounds): TableProgram {
  const { services, others } = differences(base, offered);
  const changed = new Set(changedEndpoints(base, offered));
  const taken = services.filter((one) => takesService(one, base, offered, { ...bounds, changed }));
  if (taken.length === 0) return base;
  const newChains = new Map<string, readonly string[]>();
  for (const { after } of taken) {
    for (const name of [...(readService(after, offered)?.chains ?? []), after])
      newChains.set(name, offered.chains.get(name) ?? []);
  }
  const isWhole = taken.length === services.length && [...changed].every((name) => newChains.has(name));
  if (isWhole && sameOthers(base, offered, others)) return offered;
  const renamed = new Map(taken.map(({ before, after }) => [before, after] as const));
  if (taken.some(({ before }) => !isTagged(before))) return replaced(base, newChains);
  const isTaken = (name: string, rules: readonly string[]): boolean => {
    const theirs = offered.chains.get(name);
    return theirs !== undefined && theirs.join('\n') !== rules.join('\n');
  };
  return replaceChains(base, { renamed, chains: newChains }, isTaken);
}

/** The names of a Service's chain in two tables. */
interface ServicePair {
  readonly before: string;
  readonly after: string;
}

/** @param changed `changedEndpoints`: a chain that another Service leads to must not change with this one */
function takesService(
  { before, after }: ServicePair,
  base: TableProgram,
  offered: TableProgram,
  { isApproved, declined, loss, family, changed }: TableBounds & { readonly changed: ReadonlySet<string> },
): boolean {
  const [had, has] = [readService(before, base), readService(after, offered)];
  if (!had || !has || !onlyEndpointsDiffer(had, has, isApproved, loss)) return false;
  const offers = declined.get(`${family} ${withoutTag(after)}`);
  if (offers !== undefined && offers === endpointsText(has.endpoints.keys())) return false;
  const compared = new Set(comparedEndpoints(had, has));
  return has.chains.every((name) => !changed.has(name) || compared.has(name));
}

interface Differences {
  /** Services of both tables, with different rules. */
  readonly services: readonly ServicePair[];
  /** All other chains that differ or that only one table has, except those of endpoints. */
  readonly others: { readonly removed: readonly string[]; readonly added: readonly string[] };
}

function differences(base: TableProgram, offered: TableProgram): Differences {
  const changed = differing(base.chains, offered.chains).filter(
    (name) => !sameRules(base.chains.get(name), offered.chains.get(name)),
  );
  const removed = changed.filter((name) => base.chains.has(name));
  const added = changed.filter((name) => offered.chains.has(name));
  const after = new Map(added.filter(isService).map((name) => [withoutTag(name), name] as const));
  const services = removed.filter(isService).flatMap((before) => {
    const found = after.get(withoutTag(before));
    return found === undefined ? [] : [{ before, after: found }];
  });
  const met = new Set(services.flatMap((one) => [one.before, one.after]));
  const rest = (names: readonly string[]): readonly string[] =>
    names.filter((name) => !met.has(name) && !isEndpoint(name));
  return { services, others: { removed: rest(removed), added: rest(added) } };
}

function sameRules(a: readonly string[] | undefined, b: readonly string[] | undefined): boolean {
  return a === b || (a?.length === b?.length && (a ?? []).every((rule, index) => rule === b?.[index]));
}

/**
 * Whether two tables lead to the same Services by the same rules, in the same order. The order matters: in POSTROUTING it decides which
 * packets are masqueraded. Dispatch trees with the same rules have the same shape, and their chains the same order.
 */
function sameOthers(base: TableProgram, offered: TableProgram, { removed, added }: Differences['others']): boolean {
  const rules = (table: TableProgram, names: readonly string[]): string =>
    names
      .map((name) => {
        const [chain, own] = [plainName(name), table.chains.get(name) ?? []];
        return [chain, ...own.map((rule) => plain(rule.slice(3 + name.length)))].join('\n');
      })
      .toSorted(compareText)
      .join('\n');
  return base.jumps.join('\n') === offered.jumps.join('\n') && rules(base, removed) === rules(offered, added);
}

const plain = (rule: string): string =>
  rule.replace(/ -([jg]) (SLU(?:ICE)?-\S+)$/, (_all, go: string, name: string) => ` -${go} ${plainName(name)}`);

/** A table in layout `flat` with some chains replaced by name, without the endpoints that no rule leads to any more. */
function replaced(base: TableProgram, newChains: TableProgram['chains']): TableProgram {
  const chains = new Map([...base.chains, ...newChains]);
  const needed = new Set<string>();
  for (const rules of chains.values())
    for (const rule of rules) needed.add(/ -j (KUBE-SEP-\S+)$/.exec(rule)?.[1] ?? '');
  return { chains: new Map([...chains].filter(([name]) => !isEndpoint(name) || needed.has(name))), jumps: base.jumps };
}
