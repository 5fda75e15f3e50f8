import { ownersOf } from '../partial/services.ts';
import type { NodeState } from '../../ports/node-state.ts';
import type { RuleCount } from './rule-counts.ts';
import { type TrafficReading, TrafficSums } from './traffic.ts';

/** What the kernel counts of a real server of mode ipvs, since it was added. */
export interface ServerStatistics {
  /** `10.96.0.10:80/TCP` */
  readonly server: string;
  /** `10.244.1.5:8080` */
  readonly endpoint: string;
  /** New ones. */
  readonly connections: number;
  /** TCP and SCTP: established ones; UDP: those that have not timed out. */
  readonly live: number;
  /** Of both directions. */
  readonly bytes: number;
}

type ServerState = Pick<NodeState, 'ipvs' | 'services'>;

/** New connections, as if virtual servers were chains of rules. Foreign servers are left out. */
export const countsOfServers = (statistics: readonly ServerStatistics[], state: ServerState): readonly RuleCount[] =>
  statistics.flatMap(({ server, endpoint, connections }) => {
    const service = serviceOf(server, state);
    if (service === undefined || connections === 0) return [];
    return [{ service, chain: server, group: server, endpoint, connections }];
  });

/** Foreign servers are left out. */
export function trafficOfServers(statistics: readonly ServerStatistics[], state: ServerState): TrafficReading {
  const sums = new TrafficSums();
  for (const { server, endpoint, live, bytes } of statistics) {
    const service = serviceOf(server, state);
    if (service !== undefined && (live > 0 || bytes > 0)) sums.add(service, endpoint, live, bytes);
  }
  return sums.reading;
}

/** `shop/web`; in a state of an older version, which names no Services, the key of the server; undefined: it is foreign. */
function serviceOf(server: string, { ipvs, services }: ServerState): string | undefined {
  return ipvs?.virtualServers.has(server) ? ((services && ownersOf(services).get(server)) ?? server) : undefined;
}
