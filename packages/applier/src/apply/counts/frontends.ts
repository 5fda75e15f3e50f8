import {
  anyAddress,
  type Family,
  frontendKey,
  frontendMark,
  type Mode,
  planeOf,
  type TransportProtocol,
} from '@sluice/netfilter';
import { ownersOf } from '../partial/services.ts';
import { familyNames, type NodeState } from '../../ports/node-state.ts';

/**
 * The Service that a state translates a connection for: `shop/web:http`, in mode nftables `shop/web`. A node port is one of any address:
 * then `address` is undefined.
 * @returns undefined where there is no such frontend
 */
export type ServiceAt = (protocol: string, address: string | undefined, port: string) => string | undefined;

/**
 * The Services of a state by their frontends. Rules are read when the first one is asked for, so that a node without connections does not
 * read them, and the work counts for what asks.
 */
export function servicesAt(state: NodeState, family: Family): ServiceAt {
  let at: ServiceAt | undefined;
  return (...place) => {
    at ??= servicesIn[planeOf(state).mode](state, family);
    return at(...place);
  };
}

const servicesIn: Readonly<Record<Mode, (state: NodeState, family: Family) => ServiceAt>> = {
  iptables: ofRules,
  ipvs: ofRules,
  nftables: ofTable,
};

/** The families that a state has frontends of. */
export function familiesServed({ nft, families }: NodeState): readonly Family[] {
  const keys = [...(nft?.frontends.keys() ?? [])];
  return familyNames.filter(
    (family) => families[family] !== undefined || keys.some((key) => key.includes(':') === (family === 'ipv6')),
  );
}

function ofTable({ nft, services }: NodeState, family: Family): ServiceAt {
  const owners = services && ownersOf(services);
  return (protocol, address = anyAddress[family], port) => {
    const key = frontendKey({ address, protocol: protocol as TransportProtocol, port: Number(port) });
    return nft?.frontends.has(key) ? (owners?.get(`${frontendMark}${key}`) ?? key) : undefined;
  };
}

/** Rules name their Services themselves, and of virtual servers the address stands for the Service. */
function ofRules(state: NodeState, family: Family): ServiceAt {
  const id = (protocol: string, address: string | undefined, port: number | string): string =>
    `${protocol} ${address ?? '*'} ${port}`;
  let known: ReadonlyMap<string, string> | undefined;
  return (protocol, address, port) => {
    known ??= new Map(
      [...planeOf(state).read(state).frontends(family, false)].flatMap((one) =>
        one.protocol === undefined ? [] : [[id(one.protocol, one.address, one.port), one.service] as const],
      ),
    );
    return known.get(id(protocol, address, port));
  };
}
