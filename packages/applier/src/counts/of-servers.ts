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

/** New connections, as if virtual servers were chains of rules. Their statistics name no Service: the key of the server stands for it. */
export const countsOfServers = (statistics: readonly ServerStatistics[]): readonly RuleCount[] =>
  statistics.flatMap(({ server, endpoint, connections }) =>
    connections === 0 ? [] : [{ service: server, chain: server, group: server, endpoint, connections }],
  );

export function trafficOfServers(statistics: readonly ServerStatistics[]): TrafficReading {
  const sums = new TrafficSums();
  for (const { server, endpoint, live, bytes } of statistics)
    if (live > 0 || bytes > 0) sums.add(server, endpoint, live, bytes);
  return sums.reading;
}
