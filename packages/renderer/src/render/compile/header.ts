import type { Family } from '@sluice/netfilter';
import type { Endpoint, PortOfFamily, Service, ServicePort } from '../model/model.ts';

/**
 * The comment block above the rules of a Service: its type, addresses, ports and traffic policy, then one endpoint per line. It is the
 * Service's declaration, which reviews compare with the rules; nodes ignore it.
 * @param weightOf the weights of modes ipvs and nftables
 */
export function headerOf(
  service: Service,
  family: Family,
  weightOf: (endpoint: Endpoint) => number = () => 1,
): readonly string[] {
  const ports = service.ports.flatMap((port) => {
    const here = port.families[family];
    return here ? [{ port, here }] : [];
  });
  const lines = [
    ...ports.map(({ port, here }) => `${here.clusterIP}: ${portLine(port)}`),
    ...ports.flatMap(({ port, here }) => treatment(port, here)),
  ];
  return [
    `${service.namespace}/${service.name} ${service.type}`,
    // Lines that all ports share appear once.
    ...new Set(lines),
    ...ports.flatMap(({ port, here }) =>
      here.endpoints.map((endpoint) => endpointLine(port, endpoint, weightOf(endpoint))),
    ),
  ];
}

/**
 * The comment block of a file for several families; lines that they share appear once.
 * @param choices lines that follow the first one
 */
export function headerOfFamilies(
  service: Service,
  families: readonly Family[],
  weightOf?: (endpoint: Endpoint) => number,
  choices: readonly string[] = [],
): readonly string[] {
  const [title = '', ...rest] = families.flatMap((family) => headerOf(service, family, weightOf));
  return [...new Set([title, ...choices, ...rest])];
}

/** `http 80/TCP node port 30080` */
function portLine(port: ServicePort): string {
  const name = port.name === '' ? '' : `${port.name} `;
  const nodePort = port.nodePort === 0 ? '' : ` node port ${port.nodePort}`;
  return `${name}${port.port}/${port.protocol}${nodePort}`;
}

function treatment(port: ServicePort, here: PortOfFamily): readonly string[] {
  return [
    ...here.externalIPs.map((address) => `external address ${address}`),
    ...here.loadBalancerIPs.map((address) => `load-balancer address ${address}`),
    ...here.loadBalancerSourceRanges.map((range) => `load-balancer source range ${range}`),
    ...(port.internalTrafficPolicy === 'Local' ? ['internalTrafficPolicy Local'] : []),
    ...(port.externalTrafficPolicy === 'Local' ? ['externalTrafficPolicy Local'] : []),
    ...(port.healthCheckNodePort === 0 ? [] : [`health-check node port ${port.healthCheckNodePort}`]),
    ...(port.affinitySeconds === undefined ? [] : [`session affinity ClientIP ${port.affinitySeconds} s`]),
  ];
}

/**
 * `endpoint http 10.244.1.5:8080 node-a zone-a`, with `-` for an unknown node in a known zone; then
 * `, weight 3, for zones zone-a,zone-b, for nodes node-a`.
 */
function endpointLine(port: ServicePort, endpoint: Endpoint, weight: number): string {
  const node = endpoint.nodeName ?? (endpoint.zone === undefined ? undefined : '-');
  const state = [
    endpoint.ready ? '' : 'not ready',
    endpoint.terminating ? (endpoint.serving ? 'terminating' : 'terminating, not serving') : '',
  ];
  const words = ['endpoint', port.name, endpoint.text, node, endpoint.zone, ...state].filter(Boolean).join(' ');
  const clauses = [
    weight === 1 ? '' : `weight ${weight}`,
    endpoint.hintZones.length === 0 ? '' : `for zones ${endpoint.hintZones.join(',')}`,
    endpoint.hintNodes.length === 0 ? '' : `for nodes ${endpoint.hintNodes.join(',')}`,
  ];
  return [words, ...clauses.filter(Boolean)].join(', ');
}
