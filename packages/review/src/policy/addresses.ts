import {
  addressOfEndpoint,
  type Cidr,
  cidrContains,
  type Family,
  forbiddenEndpoint,
  isInCidr,
  modeFacts,
  parseAddress,
  parseCidr,
  families,
  printWords,
} from '@sluice/netfilter';
import { valueOf } from '@sluice/bundle';
import type { Violation } from './finding.ts';
import { hostsOf } from '../facts/service-entries.ts';
import { eachService, type PolicyContext } from './context.ts';

/** EXTERNAL_IP */
export function externalIPs(context: PolicyContext): readonly Violation[] {
  const allowed = context.settings.externalIPs ?? [];
  return eachService(context, ({ facts }) =>
    hostsOf(facts.ports, ['external'])
      .filter((host) => !allowed.some((cidr) => cidrContains(cidr, host)))
      .map((host) => ({
        code: 'EXTERNAL_IP',
        message: `Cannot accept external IP ${host}: it is not in policy.externalIPs`,
        hint: 'Remove it from the Service, or add its network to `policy.externalIPs` if it is yours',
        at: `external address ${host}`,
      })),
  );
}

/** ENDPOINT_RANGE. Without a pod network in the bundle there is nothing to compare with. */
export function endpointRanges(context: PolicyContext): readonly Violation[] {
  const known = { ipv4: networksOf(context, 'ipv4'), ipv6: networksOf(context, 'ipv6') };
  return eachService(context, ({ facts }) => {
    const networks = known[facts.family];
    if (networks.length === 0) return [];
    const texts = new Set(facts.ports.flatMap(({ endpoints }) => endpoints.map(({ text }) => text)));
    return [...texts]
      .filter((text) => {
        const address = parseAddress(addressOfEndpoint(text));
        return address === undefined || !networks.some((cidr) => isInCidr(address, cidr));
      })
      .map((text) => ({
        code: 'ENDPOINT_RANGE',
        message: `Cannot accept endpoint ${text}: it is neither in a pod network nor in policy.endpointRanges`,
        hint: 'Remove it, or add its network to `policy.endpointRanges`',
        at: text,
      }));
  });
}

function networksOf({ view, settings }: PolicyContext, family: Family): readonly Cidr[] {
  const pods = [...view.nodes.values()].map(({ values }) => valueOf(values, family, 'podCIDR'));
  const clusters = [...view.profiles.values()].map(({ values }) => valueOf(values, family, 'clusterCIDR'));
  const known = [...new Set([...pods, ...clusters])].filter((cidr): cidr is string => typeof cidr === 'string');
  if (known.length === 0) return [];
  return [...known, ...(settings.endpointRanges ?? [])].flatMap((text) => {
    const cidr = parseCidr(text);
    return cidr?.family === family ? [cidr] : [];
  });
}

/** ENDPOINT_LOCAL */
export function localAddresses(context: PolicyContext): readonly Violation[] {
  return eachService(context, ({ facts }) => {
    const endpoints = facts.ports.flatMap((port) => port.endpoints.map(({ text }) => addressOfEndpoint(text)));
    const hosts = [...hostsOf(facts.ports, ['cluster', 'external', 'load-balancer']), ...endpoints];
    return [...new Set(hosts)].flatMap((host) => {
      const why = forbiddenEndpoint(host);
      if (why === undefined) return [];
      return {
        code: 'ENDPOINT_LOCAL' as const,
        message: `Cannot accept address ${host}: ${why}`,
        hint: 'Use an address that leads to the same host from every node',
        at: host,
      };
    });
  });
}

/**
 * ADDRESS_TAKEN. A load-balancer address that is a node's own is intended (ServiceLB of k3s): only in a mode that gives addresses to an
 * interface of every node it takes that of another node away.
 */
export function takenAddresses(context: PolicyContext): readonly Violation[] {
  const ownerOf = ownersOf(context);
  return eachService(context, ({ profile, facts }) =>
    (['cluster', 'external', 'load-balancer'] as const).flatMap((kind) =>
      hostsOf(facts.ports, [kind]).flatMap((host) => {
        const owner = ownerOf(host, facts.service);
        if (owner === undefined) return [];
        const mode = context.view.profiles.get(profile)?.mode ?? 'iptables';
        if (kind === 'load-balancer' && owner.isNode === true && !modeFacts[mode].bindsAddresses) return [];
        return {
          code: 'ADDRESS_TAKEN' as const,
          message: `Cannot give ${kind} address ${host} to ${facts.service}: it belongs to ${owner.name}`,
          hint: 'Choose another address for the Service',
          at: host,
        };
      }),
    ),
  );
}

/** RANGES_ONE_FAMILY */
export function rangesOfOneFamily(context: PolicyContext): readonly Violation[] {
  return eachService(context, ({ facts }) => {
    const others = context.services.get(`${facts.service} ${facts.family === 'ipv4' ? 'ipv6' : 'ipv4'}`) ?? [];
    const other = others.flatMap((entry) => entry.facts.ports);
    const isOpen =
      hostsOf(facts.ports, ['load-balancer']).length > 0 && facts.ports.every((port) => port.sourceRanges.length === 0);
    // Ranges in one family show the intent to restrict, even without a load-balancer address in that family.
    const isClosed = other.some(({ sourceRanges }) => sourceRanges.length > 0);
    if (!isOpen || !isClosed) return [];
    return {
      code: 'RANGES_ONE_FAMILY',
      message: `Cannot accept source ranges of one family: the ${facts.family} addresses of the load balancer are open to all sources`,
      hint: `Add an ${facts.family} network to loadBalancerSourceRanges`,
    };
  });
}

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
function ownersOf({ view, services, settings }: PolicyContext): OwnerOf {
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
