import { families, parseAddress, parseCidr, printWords } from '@sluice/netfilter';
import { valueOf } from '@sluice/bundle';
import { hostsOf } from '../facts/service-entries.ts';
import type { PolicyContext } from './context.ts';

/** The owner of an address. */
interface Owner {
  readonly name: string;
  /** Its own address, not one of its pods. */
  readonly isNode?: boolean;
}

/** The owner of an address that a Service must not have; undefined for a free address. */
type OwnerOf = (host: string, service: string) => Owner | undefined;

/** The API's Service: the API server gives it the first address of the service network. */
const apiService = 'default/kubernetes';

/** Collects the owners of a cluster's addresses. */
export function ownersOf({ view, services, settings }: PolicyContext): OwnerOf {
  const owners = new Map<string, Owner>();
  for (const [name, { values }] of view.nodes) {
    for (const family of families) {
      const [own, pods] = [valueOf(values, family, 'address'), valueOf(values, family, 'podCIDR')];
      if (typeof own === 'string') owners.set(own, { name: `node ${name}`, isNode: true });
      const gateway = typeof pods === 'string' ? firstOf(pods) : undefined;
      if (gateway !== undefined) owners.set(gateway, { name: `the gateway of the pods on node ${name}` });
    }
  }
  for (const address of settings.protected ?? []) owners.set(canonical(address), { name: 'policy.protected' });
  const clusterIPs = new Map<string, Set<string>>();
  for (const entries of services.values()) {
    for (const { facts } of entries) {
      for (const host of hostsOf(facts.ports, ['cluster'])) {
        clusterIPs.set(host, (clusterIPs.get(host) ?? new Set<string>()).add(facts.service));
      }
    }
  }
  const ofApi = [...clusterIPs].flatMap(([host, holders]) => (holders.has(apiService) ? [host] : []));
  const api = new Set<string | undefined>(ofApi.length > 0 ? ofApi : view.cluster.serviceCIDRs.map(firstOf));
  return (host, service) => {
    if (api.has(host) && service !== apiService)
      return { name: 'the API, which has the first address of the service network' };
    const holder = [...(clusterIPs.get(host) ?? [])].find((other) => other !== service);
    return holder === undefined ? owners.get(host) : { name: `Service ${holder}` };
  };
}

/** The first address of a network that is not its own: `10.244.1.1` of `10.244.1.0/24`. */
function firstOf(cidr: string): string | undefined {
  const network = parseCidr(cidr);
  if (network === undefined) return undefined;
  // The host bits of a network are zero, so adding one does not carry; a network of one address has no further one.
  const isWhole = network.prefix >= (network.family === 'ipv4' ? 32 : 128);
  return isWhole
    ? undefined
    : printWords(network.words.map((word, at) => (at === network.words.length - 1 ? word + 1 : word)));
}

const canonical = (address: string): string => parseAddress(address)?.text ?? address;
