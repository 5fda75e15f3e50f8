import type { Family, Scheduler } from '@sluice/netfilter';
import type { Endpoint, PortOfFamily, ServicePort } from '../../model/model.ts';
import type { FleetSelection } from '../../select/fleet.ts';
import type { NodeFleet } from '../../select/guards.ts';

/** The input of the lines of one Service port in one family. */
export interface IpvsPort {
  readonly port: ServicePort;
  readonly here: PortOfFamily;
  readonly family: Family;
  readonly selection: FleetSelection;
  readonly fleet: NodeFleet;
  readonly scheduler: Scheduler;
  readonly weightOf: (endpoint: Endpoint) => number;
  /** The variable for the addresses of node ports. */
  readonly nodePortAddress: NodePortAddress;
}

export type NodePortAddress = '${host.nodePortAddresses}' | '${node.address}';

/** An address and port of a Service port, and whether only local endpoints serve it. */
export interface IpvsFrontend {
  readonly address: string;
  readonly port: number;
  readonly onlyLocal: boolean;
}

/** The port's frontends, each address once, in the order of kube-proxy's `syncService` calls. */
export function frontendsOf({ port, here, nodePortAddress }: IpvsPort): readonly IpvsFrontend[] {
  const [inside, outside] = [port.internalTrafficPolicy === 'Local', port.externalTrafficPolicy === 'Local'];
  const frontends: IpvsFrontend[] = [{ address: here.clusterIP, port: port.port, onlyLocal: inside }];
  for (const address of new Set([...here.externalIPs, ...here.loadBalancerIPs]))
    frontends.push({ address, port: port.port, onlyLocal: outside });
  if (port.nodePort !== 0) frontends.push({ address: nodePortAddress, port: port.nodePort, onlyLocal: outside });
  return frontends;
}
