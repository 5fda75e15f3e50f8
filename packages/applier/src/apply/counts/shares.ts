import {
  calleeOf,
  destinationOf,
  type Family,
  isOwnChain,
  type Mode,
  perKey,
  planeOf,
  printNftEndpoint,
  readFrontend,
  slotCounts,
  type TableProgram,
  type VirtualServer,
} from '@sluice/netfilter';
import type { NodeState } from '../../ports/node-state.ts';

/** The part of new connections that each endpoint should get, by `10.244.1.5:8080`; together 1. */
export type Shares = ReadonlyMap<string, number>;

/**
 * What a state gives the endpoints of a group.
 * @param group as `RuleCount.group`
 * @returns undefined where single connections are not chosen independently (session affinity, hashes of clients), where sources get
 * different endpoints, and for a group that the state does not have
 */
export function sharesOf(state: NodeState, family: Family, group: string): Shares | undefined {
  return sharesIn[planeOf(state).mode](state, family, group);
}

const sharesIn: Readonly<Record<Mode, typeof sharesOf>> = {
  iptables: ({ families }, family, group) => {
    const table = families[family]?.nat;
    return table && ofChain(table, group, () => chancesIn(table, group));
  },
  ipvs: ({ ipvs }, _family, group) => ofServer(ipvs?.virtualServers.get(group)),
  nftables: ({ nft }, _family, group) => ofFrontend(group, nft?.frontends.get(group)),
};

const ofChain = perKey<TableProgram, Shares | undefined>();

function ofFrontend(key: string, lines: readonly string[] | undefined): Shares | undefined {
  if (lines === undefined) return undefined;
  const frontend = readFrontend(key, lines);
  const { affinitySeconds, scheduler, endpoints, local } = frontend;
  const isIndependent = affinitySeconds === undefined && (scheduler === undefined || scheduler === 'round-robin');
  if (!isIndependent || (local.length > 0 && local.join() !== endpoints.join())) return undefined;
  const slots = slotCounts(frontend, endpoints);
  const all = [...slots.values()].reduce((sum, count) => sum + count, 0);
  return new Map([...slots].map(([endpoint, count]) => [printNftEndpoint(endpoint), count / all]));
}

/** Turns are evener than chance. Other schedulers look at connections or clients. */
function ofServer(server: VirtualServer | undefined): Shares | undefined {
  const { scheduler, persistence, real } = server ?? {};
  if (!real || persistence !== undefined || (scheduler !== 'rr' && scheduler !== 'wrr')) return undefined;
  const weights = [...real].map(
    ([text, { weight }]) => [text, scheduler === 'rr' ? Math.min(weight, 1) : weight] as const,
  );
  const all = weights.reduce((sum, [, weight]) => sum + weight, 0);
  return all === 0 ? undefined : new Map(weights.map(([text, weight]) => [text, weight / all]));
}

function chancesIn(table: TableProgram, chain: string): Shares | undefined {
  const shares = new Map<string, number>();
  const left = addChances(table, chain, 1, shares);
  // The text of a probability has ten digits.
  return left !== undefined && left < 1e-6 ? shares : undefined;
}

/** Follows the rules of a chain. @returns the chance that none of them takes a connection; undefined: it does not depend on chance alone */
function addChances(
  table: TableProgram,
  chain: string,
  chance: number,
  shares: Map<string, number>,
): number | undefined {
  let left = chance;
  for (const rule of table.chains.get(chain) ?? []) {
    const target = calleeOf(rule);
    const endpoint = target === undefined ? destinationOf(rule) : undefined;
    // Marks of masquerading.
    if (endpoint === undefined && (target === undefined || !isOwnChain(target))) continue;
    const dice = probabilityOf(rule);
    if (dice === undefined) return undefined;
    const taken = left * dice;
    if (endpoint !== undefined) shares.set(endpoint, (shares.get(endpoint) ?? 0) + taken);
    else if (addChances(table, target ?? '', taken, shares) === undefined) return undefined;
    left -= taken;
  }
  return left;
}

/** 1 without dice; undefined where a rule tells connections by anything else. */
function probabilityOf(rule: string): number | undefined {
  if (/ -m recent | --mode nth | -[sd] /.test(rule)) return undefined;
  const text = / --probability (\S+)/.exec(rule)?.[1];
  return text === undefined ? 1 : Number(text);
}
