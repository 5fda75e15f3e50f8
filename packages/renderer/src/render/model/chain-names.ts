import { hash } from 'node:crypto';
import { compareText, type Problem, refusal } from '@sluice/netfilter';
import type { Protocol, ServiceKey } from './model.ts';

/** The chains of one Service port. All of them share one hash, as in kube-proxy. */
export interface PortChains {
  /** `KUBE-SVC-…`: all usable endpoints. */
  readonly cluster: string;
  /** `KUBE-SVL-…`: the endpoints on the node itself. */
  readonly local: string;
  /** `KUBE-EXT-…`: traffic to node ports, external and load-balancer addresses. */
  readonly external: string;
  /** `KUBE-FW-…`: the source ranges of load-balancer addresses. */
  readonly firewall: string;
}

/** Makes chain names and remembers the owner of each. */
export interface ServiceChainNames {
  /** The number of names so far. */
  readonly size: number;
  /** The chains of a Service port. */
  port(key: ServiceKey, protocol: Protocol): PortChains;
  /** The `KUBE-SEP-…` chain of an endpoint (`10.244.1.5:8080`) of a Service port. */
  endpoint(key: ServiceKey, protocol: Protocol, endpoint: string): string;
  /** `CHAIN_COLLISION` for every name with several owners, in an order independent of the calls'. */
  collisions(): readonly Problem[];
}

/** Every 10-bit number in base 32 (RFC 4648 alphabet). */
const pairs = Array.from({ length: 1024 }, (_, n) => base32(n >> 5) + base32(n & 31));

function base32(digit: number): string {
  return 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.charAt(digit);
}

/**
 * kube-proxy's chain hash: the first 16 characters of the base 32 text of the SHA-256 digest.
 * @param text key and lower-case protocol of a Service port, for an endpoint chain followed by `ip:port`, without separators
 */
export function hash16(text: string): string {
  const digest = hash('sha256', text, 'buffer');
  let name = '';
  // 16 characters are 80 bits: two groups of 40 bits, which a double holds exactly.
  for (const at of [0, 5]) {
    const bits = digest.readUIntBE(at, 5);
    name += pairs[Math.floor(bits / 2 ** 30)]! + pairs[Math.floor(bits / 2 ** 20) % 1024]!;
    name += pairs[Math.floor(bits / 2 ** 10) % 1024]! + pairs[bits % 1024]!;
  }
  return name;
}

/**
 * @param hashOf replaces `hash16` in tests with collisions
 * @returns names for one bundle, among which collisions are found
 */
export function chainNames(hashOf: (text: string) => string = hash16): ServiceChainNames {
  const ports = new Registry(hashOf);
  const endpoints = new Registry(hashOf);
  return {
    get size() {
      return ports.size + endpoints.size;
    },
    port(key, protocol) {
      const id = ports.name(key + protocol.toLowerCase());
      return {
        cluster: `KUBE-SVC-${id}`,
        local: `KUBE-SVL-${id}`,
        external: `KUBE-EXT-${id}`,
        firewall: `KUBE-FW-${id}`,
      };
    },
    endpoint: (key, protocol, endpoint) => `KUBE-SEP-${endpoints.name(key + protocol.toLowerCase() + endpoint)}`,
    collisions: () => [...ports.collisions('KUBE-SVC-'), ...endpoints.collisions('KUBE-SEP-')],
  };
}

/** The owners of hashes. */
class Registry {
  readonly #hashOf: (text: string) => string;
  readonly #owners = new Map<string, string>();
  /** Hash → its texts, for hashes with more than one. */
  readonly #shared = new Map<string, Set<string>>();

  constructor(hashOf: (text: string) => string) {
    this.#hashOf = hashOf;
  }

  get size(): number {
    return this.#owners.size;
  }

  name(text: string): string {
    const id = this.#hashOf(text);
    const owner = this.#owners.get(id);
    if (owner === undefined) this.#owners.set(id, text);
    else if (owner !== text) this.#shared.set(id, (this.#shared.get(id) ?? new Set([owner])).add(text));
    return id;
  }

  collisions(prefix: string): Problem[] {
    return [...this.#shared]
      .toSorted(([a], [b]) => compareText(a, b))
      .map(([id, texts]) =>
        refusal(
          'CHAIN_COLLISION',
          `Cannot name chain ${prefix}${id}: it would be the chain of both ${[...texts].toSorted(compareText).join(' and ')}`,
          'Rename one of the Services or ports; kube-proxy itself would mix their rules',
        ),
      );
  }
}
