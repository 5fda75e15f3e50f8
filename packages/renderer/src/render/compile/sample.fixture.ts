import type { Family } from '@sluice/netfilter';
import type { SluiceConfig, Profile } from '../model/config.ts';
import type { Endpoint, Node, PortOfFamily, Service, ServicePort } from '../model/model.ts';

/** Model values for tests: each function takes the fields under test and fills in the rest. */

/** @param text `10.244.1.5:8080` or `[fd00::5]:8080` */
export function endpoint(text: string, rest: Partial<Endpoint> = {}): Endpoint {
  const colon = text.lastIndexOf(':');
  const address = text.slice(0, colon).replace(/^\[|\]$/g, '');
  const fixed = { address, port: Number(text.slice(colon + 1)), text };
  return { ...fixed, ready: true, serving: true, terminating: false, hintZones: [], hintNodes: [], ...rest };
}

/** The condition of an endpoint that terminates and still serves. */
export const leaving = { ready: false, serving: true, terminating: true } as const;
/** The condition of an endpoint that does not serve. */
export const down = { ready: false, serving: false, terminating: false } as const;

export function inFamily(rest: Partial<PortOfFamily> = {}): PortOfFamily {
  return {
    clusterIP: '10.96.7.1',
    externalIPs: [],
    loadBalancerIPs: [],
    loadBalancerSourceRanges: [],
    endpoints: [],
    ...rest,
  };
}

/** Port `http` of `shop/cart`. */
export function portWith(here: Partial<PortOfFamily>, rest: Partial<ServicePort> = {}): ServicePort {
  return {
    key: 'shop/cart:http',
    name: 'http',
    protocol: 'TCP',
    port: 80,
    nodePort: 0,
    healthCheckNodePort: 0,
    internalTrafficPolicy: 'Cluster',
    externalTrafficPolicy: 'Cluster',
    families: { ipv4: inFamily(here) },
    ...rest,
  };
}

export function serviceOf(ports: readonly ServicePort[], type: Service['type'] = 'ClusterIP'): Service {
  return { namespace: 'shop', name: 'cart', type, ports };
}

export function node(name: string, rest: Partial<Node> = {}): Node {
  return { name, profile: 'default', address: {}, podCIDR: {}, ...rest };
}

/** kube-proxy's defaults. */
export function profileWith(rest: Partial<Profile> = {}): Profile {
  const families: readonly Family[] = ['ipv4', 'ipv6'];
  return {
    name: 'default',
    nodeSelector: {},
    mode: 'iptables',
    families,
    featureGates: { AllowServiceExternalIPs: true },
    iptables: { masqueradeBit: 14, masqueradeAll: false, localhostNodePorts: true, randomFully: true },
    detectLocalMode: 'ClusterCIDR',
    detectLocal: { bridgeInterface: '', interfaceNamePrefix: '' },
    clusterCIDR: { ipv4: '10.244.0.0/16', ipv6: 'fd00:10:244::/56' },
    nodePortAddresses: [],
    conntrack: {
      maxPerCore: 32_768,
      min: 131_072,
      tcpEstablishedTimeout: 86_400,
      tcpCloseWaitTimeout: 3_600,
      udpTimeout: 0,
      udpStreamTimeout: 0,
      tcpBeLiberal: false,
    },
    sysctls: {},
    ...rest,
  };
}

export function configWith(rest: Partial<SluiceConfig> = {}): SluiceConfig {
  return {
    clusterName: 'shop',
    complete: false,
    profiles: [profileWith()],
    serviceCIDRs: { ipv4: ['10.96.0.0/12'] },
    primaryFamily: 'ipv4',
    nodePortRange: { from: 30_000, to: 32_767 },
    named: { serviceCIDRs: false, nodePortRange: false },
    nodes: [],
    ...rest,
  };
}
