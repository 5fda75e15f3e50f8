import { type Family, frontendMark, isNodePort, type Mode, planeOf, readFrontendKey } from '@sluice/netfilter';
import { ownersOf } from '../partial/services.ts';
import type { NodeState } from '../ports/node-state.ts';

/** The frontend of a connection: `tcp 10.96.0.10 80`; a node port is one of any address, `tcp * 30080`. */
export const frontendId = (protocol: string, address: string | undefined, port: number | string): string =>
  `${protocol} ${address ?? '*'} ${port}`;

/**
 * The Services that a state translates connections for.
 * @returns `shop/web:http`, in mode nftables `shop/web`, by `frontendId`
 */
export function servicesByFrontend(state: NodeState, family: Family): ReadonlyMap<string, string> {
  return new Map(namedIn[planeOf(state).mode](state, family));
}

type NamedFrontends = (state: NodeState, family: Family) => Iterable<readonly [frontend: string, service: string]>;

/** Rules name their Services themselves, and of virtual servers the address stands for the Service. */
const namedIn: Readonly<Record<Mode, NamedFrontends>> = { iptables: ofRules, ipvs: ofRules, nftables: ofTable };

function* ofTable({ nft, services }: NodeState, family: Family): Generator<readonly [string, string]> {
  const owners = services && ownersOf(services);
  for (const key of nft?.frontends.keys() ?? []) {
    const parts = readFrontendKey(key);
    if (parts.family !== family) continue;
    const address = isNodePort(parts) ? undefined : parts.address;
    yield [frontendId(parts.protocol, address, parts.port), owners?.get(`${frontendMark}${key}`) ?? key];
  }
}

function* ofRules(state: NodeState, family: Family): Generator<readonly [string, string]> {
  for (const { protocol, address, port, service } of planeOf(state).read(state).frontends(family, false))
    if (protocol !== undefined) yield [frontendId(protocol, address, port), service];
}
