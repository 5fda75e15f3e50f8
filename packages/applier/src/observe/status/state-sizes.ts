import {
  choosesEndpoint,
  destinationOf,
  emptyTable,
  families,
  type Family,
  type IpvsState,
  readFrontendKey,
  RunningTotal,
} from '@sluice/netfilter';
import { Gauge, type Registry } from 'prom-client';
import type { NodeState } from '../../ports/node-state.ts';
import { makersFor } from './make-metric.ts';

/** How many parts of a state choose among endpoints, and how many endpoints they choose among. */
interface StateSize {
  /** Mode iptables: Service ports with endpoints, once more for the endpoints of the node alone; else frontends with endpoints. */
  readonly servicePorts: number;
  /** Mode iptables: rules that translate to an endpoint; else the endpoints of each frontend. */
  readonly endpoints: number;
}

const none: StateSize = { servicePorts: 0, endpoints: 0 };
const add = (a: StateSize, b: StateSize, sign: number): StateSize => ({
  servicePorts: a.servicePorts + sign * b.servicePorts,
  endpoints: a.endpoints + sign * b.endpoints,
});

/** The sizes of a family in modes iptables and nftables. */
interface Running {
  readonly chains: RunningTotal<readonly string[], StateSize>;
  readonly frontends: RunningTotal<readonly string[], StateSize>;
}

const running = (family: Family): Running => ({
  chains: new RunningTotal({ none, of: sizeOfChain, add }),
  frontends: new RunningTotal({
    none,
    of: (key, lines) => (readFrontendKey(key).family === family ? sizeOfFrontend(lines) : none),
    add,
  }),
});

/** Counts Services and endpoints of the active generation. Only chains and frontends that a change touched are read again. */
export class StateSizes {
  readonly #ports: Gauge<'ip_family'>;
  readonly #endpoints: Gauge<'ip_family'>;
  readonly #running = { ipv4: running('ipv4'), ipv6: running('ipv6') } as const satisfies Record<Family, Running>;

  constructor(registry: Registry) {
    const { gauge } = makersFor(registry);
    this.#ports = gauge(
      'sluice_service_ports',
      'Service ports with endpoints, once more for the endpoints of this node alone; in modes ipvs and nftables frontends with endpoints',
      'ip_family',
    );
    this.#endpoints = gauge(
      'sluice_endpoints',
      'Rules that translate to an endpoint; in modes ipvs and nftables the endpoints of each frontend',
      'ip_family',
    );
  }

  /** @param state of the active generation; undefined without one */
  activate(state: NodeState | undefined): void {
    for (const family of families) {
      const { servicePorts, endpoints } = this.#of(family, state);
      const labels = { ip_family: family === 'ipv4' ? 'IPv4' : 'IPv6' };
      this.#ports.set(labels, servicePorts);
      this.#endpoints.set(labels, endpoints);
    }
  }

  /** A state has one of rules, frontends and servers: what it lacks counts as empty, so that nothing of an earlier one stays in memory. */
  #of(family: Family, { nft, ipvs, families: programs }: Partial<NodeState> = {}): StateSize {
    const { chains, frontends } = this.#running[family];
    // Those of mode ipvs choose no endpoint.
    const rules = ipvs ? undefined : programs?.[family]?.nat.chains;
    const ofRules = chains.of(rules ?? emptyTable.chains);
    const ofNft = frontends.of(nft?.frontends ?? new Map());
    return ipvs ? sizeOfServers(family, ipvs) : add(ofRules, ofNft, 1);
  }
}

function sizeOfChain(name: string, rules: readonly string[]): StateSize {
  return {
    servicePorts: choosesEndpoint(name) && rules.length > 0 ? 1 : 0,
    endpoints: rules.filter((rule) => destinationOf(rule) !== undefined).length,
  };
}

function sizeOfFrontend(lines: readonly string[]): StateSize {
  const endpoints = lines.filter((line) => line.startsWith('endpoint ')).length;
  return { servicePorts: endpoints > 0 ? 1 : 0, endpoints };
}

function sizeOfServers(family: Family, { virtualServers }: IpvsState): StateSize {
  const counts = [...virtualServers.values()].flatMap((server) => (server.family === family ? [server.real.size] : []));
  return {
    servicePorts: counts.filter((count) => count > 0).length,
    endpoints: counts.reduce((sum, count) => sum + count, 0),
  };
}
