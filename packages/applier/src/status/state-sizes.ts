import {
  choosesEndpoint,
  destinationOf,
  differing,
  emptyTable,
  families,
  type Family,
  type TableProgram,
} from '@sluice/netfilter';
import { Gauge, type Registry } from 'prom-client';
import type { NodeState } from '../ports/node-state.ts';

/** How many parts of a state choose among endpoints, and how many endpoints they choose among. */
export interface StateSize {
  /** Mode iptables: Service ports with endpoints, once more for the endpoints of the node alone; else frontends with endpoints. */
  readonly servicePorts: number;
  /** Mode iptables: rules that translate to an endpoint; else the endpoints of each frontend. */
  readonly endpoints: number;
}

const none: StateSize = { servicePorts: 0, endpoints: 0 };
const add = (a: StateSize, b: StateSize, sign = 1): StateSize => ({
  servicePorts: a.servicePorts + sign * b.servicePorts,
  endpoints: a.endpoints + sign * b.endpoints,
});

/** Counts Services and endpoints of the active generation. In mode iptables only chains that a change touched are read again. */
export class StateSizes {
  readonly #ports: Gauge<'ip_family'>;
  readonly #endpoints: Gauge<'ip_family'>;
  readonly #last = new Map<Family, { readonly chains: TableProgram['chains']; readonly size: StateSize }>();

  constructor(registry: Registry) {
    const gauge = (name: string, help: string): Gauge<'ip_family'> =>
      new Gauge({ name, help, labelNames: ['ip_family'], registers: [registry] });
    this.#ports = gauge(
      'sluice_service_ports',
      'Service ports with endpoints, once more for the endpoints of this node alone; in modes ipvs and nftables frontends with endpoints',
    );
    this.#endpoints = gauge(
      'sluice_endpoints',
      'Rules that translate to an endpoint; in modes ipvs and nftables the endpoints of each frontend',
    );
  }

  /** @param state of the active generation; undefined without one */
  activate(state: NodeState | undefined): void {
    for (const family of families) {
      const { servicePorts, endpoints } = state ? this.#of(family, state) : none;
      const labels = { ip_family: family === 'ipv4' ? 'IPv4' : 'IPv6' };
      this.#ports.set(labels, servicePorts);
      this.#endpoints.set(labels, endpoints);
    }
  }

  #of(family: Family, state: NodeState): StateSize {
    if (state.nft || state.ipvs) return sizeOfFrontends(family, state);
    const { chains } = state.families[family]?.nat ?? emptyTable;
    const last = this.#last.get(family) ?? { chains: emptyTable.chains, size: none };
    let { size } = last;
    for (const name of differing(last.chains, chains))
      size = add(add(size, sizeOfChain(name, chains.get(name))), sizeOfChain(name, last.chains.get(name)), -1);
    this.#last.set(family, { chains, size });
    return size;
  }
}

function sizeOfChain(name: string, rules: readonly string[] | undefined): StateSize {
  if (rules === undefined) return none;
  return {
    servicePorts: choosesEndpoint(name) && rules.length > 0 ? 1 : 0,
    endpoints: rules.filter((rule) => destinationOf(rule) !== undefined).length,
  };
}

function sizeOfFrontends(family: Family, { nft, ipvs }: NodeState): StateSize {
  const isOf = (address: string): boolean => address.includes(':') === (family === 'ipv6');
  const counts = nft
    ? [...nft.frontends].flatMap(([key, lines]) =>
        isOf(key) ? [lines.filter((line) => line.startsWith('endpoint ')).length] : [],
      )
    : [...(ipvs?.virtualServers.values() ?? [])].flatMap((server) =>
        server.family === family ? [server.real.size] : [],
      );
  return {
    servicePorts: counts.filter((count) => count > 0).length,
    endpoints: counts.reduce((sum, count) => sum + count, 0),
  };
}
