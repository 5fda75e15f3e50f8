import { anyAddress, type Family, frontendKey, type NftScheduler, type TransportProtocol } from '@sluice/netfilter';
import type { Endpoint, PortOfFamily, ServicePort } from '../../model/model.ts';
import type { FleetSelection } from '../../select/fleet.ts';

/** The input of the lines of one Service port in one family. */
export interface NftPort {
  readonly port: ServicePort;
  readonly here: PortOfFamily;
  readonly family: Family;
  readonly selection: FleetSelection;
  /** undefined: at random. */
  readonly scheduler: NftScheduler | undefined;
  readonly weightOf: (endpoint: Endpoint) => number;
}

/** An address and port of a Service port, and how it is served. */
export interface Frontend {
  /** `10.96.0.10 . tcp . 80` */
  readonly key: string;
  readonly address: string;
  readonly port: number;
  readonly isNodePort: boolean;
  /** The list of endpoints that serves it. */
  readonly list: 'cluster' | 'local';
  /** How it is reached from outside; undefined: a ClusterIP. With policy Local sources outside use the local endpoints. */
  readonly outside?: 'cluster' | 'local';
  /** Only the Service's source ranges may use it. */
  readonly isRestricted: boolean;
}

/** kube-proxy's name of a protocol in rules. */
export const protocolOf = ({ port }: NftPort): TransportProtocol => port.protocol.toLowerCase() as TransportProtocol;

/** The port's frontends, each once: ClusterIP, external IPs, load-balancer addresses, node port. */
export function frontendsOf(compiled: NftPort): readonly Frontend[] {
  const { port, here, family } = compiled;
  const outside = port.externalTrafficPolicy === 'Local' ? 'local' : 'cluster';
  const restricted = new Set(here.loadBalancerSourceRanges.length > 0 ? here.loadBalancerIPs : []);
  const external = new Set([...here.externalIPs, ...here.loadBalancerIPs]);
  external.delete(here.clusterIP);
  const of = (address: string, number: number, rest: Partial<Frontend>): Frontend => ({
    key: frontendKey({ address, protocol: protocolOf(compiled), port: number }),
    address,
    port: number,
    isNodePort: false,
    list: 'cluster',
    isRestricted: restricted.has(address),
    ...rest,
  });
  return [
    of(here.clusterIP, port.port, { list: port.internalTrafficPolicy === 'Local' ? 'local' : 'cluster' }),
    ...[...external].map((address) => of(address, port.port, { outside })),
    ...(port.nodePort === 0 ? [] : [of(anyAddress[family], port.nodePort, { outside, isNodePort: true })]),
  ];
}
