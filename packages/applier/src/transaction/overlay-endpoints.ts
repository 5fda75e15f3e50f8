import {
  compareText,
  differing,
  type Family,
  type FamilyProgram,
  replaceChains,
  type TableProgram,
} from '@sluice/bundle';
import { familiesOf, type NodeState } from '../rollout/state.ts';
import { approvedBy } from './approved.ts';
import { endpointsText } from './endpoints-text.ts';
import { isTagged, isTree } from './entries.ts';
import { overlayServers } from './overlay-servers.ts';
import { plainName } from './left-over.ts';
import { isEndpoint, isService, type Loss, onlyEndpointsDiffer, readService, withoutTag } from './service.ts';
import { changedEndpoints, comparedEndpoints } from './changed-endpoints.ts';

/**
 * A state with the newest endpoints: for each Service that it has, those of another state, where that is an update of endpoints
 * within bounds (`onlyEndpointsDiffer`). Everything else stays: Services that come, go or change are a matter of releases.
 *
 * Both must be in one layout and one mode; otherwise nothing is taken.
 * @returns `base` itself when it takes nothing. A table that differs from that of `offered` by such endpoints alone is that table
 */
export function overlayEndpoints(
  base: NodeState,
  offered: NodeState,
  { declined = new Map(), replacesAll = false, stands = false }: OverlayOptions = {},
): NodeState {
  if (isTree(base) !== isTree(offered) || Boolean(base.ipvs) !== Boolean(offered.ipvs)) return base;
  const isApproved = stands ? () => true : approvedBy(base);
  const loss: Loss = stands ? 'any' : replacesAll ? 'most' : 'few';
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

/** What is taken besides, and what is not. */
export interface OverlayOptions {
  /** Sets of endpoints that are not taken, by Service (`EndpointChange.key`). */
  readonly declined?: ReadonlyMap<string, string>;
  /** A Service may lose all endpoints that it had, if it gets about as many others (`keepsMost`). */
  readonly replacesAll?: boolean;
  /** They stand in this kernel already: however many a Service loses, and wherever they are, they are taken. */
  readonly stands?: boolean;
}

interface TableBounds extends Required<Pick<OverlayOptions, 'declined'>> {
  readonly loss: Loss;
  readonly isApproved: (address: string) => boolean;
  readonly family: Family;
}

/** The same for the nat table of one family. */
function overlayTable(base: TableProgram, offered: TableProgram, bounds: TableBounds): TableProgram {
  const { services, others } = differences(base, offered);
  const changed = new Set(changedEndpoints(base, offered));
  const taken = services.filter((one) => takesService(one, base, offered, { ...bounds, changed }));
  if (taken.length === 0) return base;
  const comes = new Map<string, readonly string[]>();
  for (const { after } of taken) {
    for (const name of [...(readService(after, offered)?.chains ?? []), after])
      comes.set(name, offered.chains.get(name) ?? []);
  }
  const isWhole = taken.length === services.length && [...changed].every((name) => comes.has(name));
  if (isWhole && sameOthers(base, offered, others)) return offered;
  const renamed = new Map(taken.map(({ before, after }) => [before, after] as const));
  if (taken.some(({ before }) => !isTagged(before))) return replaced(base, comes);
  const isTaken = (name: string, rules: readonly string[]): boolean => {
    const held = offered.chains.get(name);
    return held !== undefined && held.join('\n') !== rules.join('\n');
  };
  return replaceChains(base, { renamed, chains: comes }, isTaken);
}

/** A Service that two tables have, by the names of its chain. */
interface Pair {
  readonly before: string;
  readonly after: string;
}

/** @param changed `changedEndpoints`: what another Service leads to is not this one's to change */
function takesService(
  { before, after }: Pair,
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
  /** Services that both have, with different rules. */
  readonly services: readonly Pair[];
  /** The chains that only one of the two has or that differ, but for endpoints and for those Services. */
  readonly others: { readonly gone: readonly string[]; readonly come: readonly string[] };
}

function differences(base: TableProgram, offered: TableProgram): Differences {
  const changed = differing(base.chains, offered.chains).filter(
    (name) => !sameRules(base.chains.get(name), offered.chains.get(name)),
  );
  const gone = changed.filter((name) => base.chains.has(name));
  const come = changed.filter((name) => offered.chains.has(name));
  const after = new Map(come.filter(isService).map((name) => [withoutTag(name), name] as const));
  const services = gone.filter(isService).flatMap((before) => {
    const found = after.get(withoutTag(before));
    return found === undefined ? [] : [{ before, after: found }];
  });
  const met = new Set(services.flatMap((one) => [one.before, one.after]));
  const rest = (names: readonly string[]): readonly string[] =>
    names.filter((name) => !met.has(name) && !isEndpoint(name));
  return { services, others: { gone: rest(gone), come: rest(come) } };
}

function sameRules(a: readonly string[] | undefined, b: readonly string[] | undefined): boolean {
  return a === b || (a?.length === b?.length && (a ?? []).every((rule, index) => rule === b?.[index]));
}

/**
 * Whether two tables lead to the same Services by the same rules, in the same order. The order counts: in POSTROUTING it decides who is
 * masqueraded. Dispatch trees have the same shape where their rules are the same, and each of their chains has the same order.
 */
function sameOthers(base: TableProgram, offered: TableProgram, { gone, come }: Differences['others']): boolean {
  const rules = (table: TableProgram, names: readonly string[]): string =>
    names
      .map((name) => {
        const [chain, own] = [plainName(name), table.chains.get(name) ?? []];
        return [chain, ...own.map((rule) => plain(rule.slice(3 + name.length)))].join('\n');
      })
      .toSorted(compareText)
      .join('\n');
  return base.jumps.join('\n') === offered.jumps.join('\n') && rules(base, gone) === rules(offered, come);
}

const plain = (rule: string): string =>
  rule.replace(/ -([jg]) (SLU(?:ICE)?-\S+)$/, (_all, go: string, name: string) => ` -${go} ${plainName(name)}`);

/** A table in layout `flat` with some chains in the place of their namesakes; endpoints that nothing leads to any more are left out. */
function replaced(base: TableProgram, comes: TableProgram['chains']): TableProgram {
  const chains = new Map([...base.chains, ...comes]);
  const needed = new Set<string>();
  for (const rules of chains.values())
    for (const rule of rules) needed.add(/ -j (KUBE-SEP-\S+)$/.exec(rule)?.[1] ?? '');
  return { chains: new Map([...chains].filter(([name]) => !isEndpoint(name) || needed.has(name))), jumps: base.jumps };
}
