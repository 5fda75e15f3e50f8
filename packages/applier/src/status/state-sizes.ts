import {
  choosesEndpoint,
  destinationOf,
  differing,
  emptyTable,
  families,
  type Family,
  type VirtualServer,
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

/** What is counted of a state: its parts by name, such as chains, and the size of one of them. */
interface CountedParts<Part> {
  readonly parts: ReadonlyMap<string, Part>;
  readonly sizeOf: (part: Part, name: string, family: Family) => StateSize;
}

/** The parts that were counted last. */
interface Counted extends CountedParts<unknown> {
  readonly size: StateSize;
}

/** Counts Services and endpoints of the active generation. Only the parts that a change touched are counted again. */
export class StateSizes {
  readonly #ports: Gauge<'ip_family'>;
  readonly #endpoints: Gauge<'ip_family'>;
  readonly #last = new Map<Family, Counted>();

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

  #of(family: Family, { nft, ipvs, families: rules }: NodeState): StateSize {
    if (nft) return this.#count(family, { parts: nft.frontends, sizeOf: sizeOfFrontend });
    if (ipvs) return this.#count(family, { parts: ipvs.virtualServers, sizeOf: sizeOfServer });
    return this.#count(family, { parts: (rules[family]?.nat ?? emptyTable).chains, sizeOf: sizeOfChain });
  }

  #count<Part>(family: Family, { parts, sizeOf }: CountedParts<Part>): StateSize {
    const last = this.#last.get(family);
    // Counted in the same way, so also of the same kind.
    const before = last?.sizeOf === sizeOf ? (last as CountedParts<Part> & Counted) : undefined;
    const sizeIn = (all: ReadonlyMap<string, Part> | undefined, name: string): StateSize => {
      const part = all?.get(name);
      return part === undefined ? none : sizeOf(part, name, family);
    };
    const changed = before ? differing(before.parts, parts) : [...parts.keys()];
    const size = changed.reduce(
      (sum, name) => add(add(sum, sizeIn(parts, name)), sizeIn(before?.parts, name), -1),
      before?.size ?? none,
    );
    this.#last.set(family, { parts, sizeOf: sizeOf as Counted['sizeOf'], size });
    return size;
  }
}

function sizeOfChain(rules: readonly string[], name: string): StateSize {
  return {
    servicePorts: choosesEndpoint(name) && rules.length > 0 ? 1 : 0,
    endpoints: rules.filter((rule) => destinationOf(rule) !== undefined).length,
  };
}

function sizeOfFrontend(lines: readonly string[], key: string, family: Family): StateSize {
  if (key.includes(':') !== (family === 'ipv6')) return none;
  return ofEndpoints(lines.filter((line) => line.startsWith('endpoint ')).length);
}

function sizeOfServer(server: VirtualServer, _name: string, family: Family): StateSize {
  return server.family === family ? ofEndpoints(server.real.size) : none;
}

const ofEndpoints = (count: number): StateSize => ({ servicePorts: count > 0 ? 1 : 0, endpoints: count });
