import type { Family, IpvsState } from '@sluice/bundle';

/** Connections of UDP through one virtual server to one real server. */
export interface UdpFlow {
  readonly family: Family;
  readonly protocol: 'udp';
  readonly address: string;
  readonly port: number;
  /** `10.244.1.5:8080`. */
  readonly endpoint: string;
}

/**
 * Connections of UDP that a change leaves without their endpoint. UDP has no end of a connection, so its entries in connection
 * tracking would go on to lead packets of the same client to an endpoint that is gone, for as long as the client sends
 * (kube-proxy's `CleanStaleEntries` in `pkg/proxy/conntrack/cleanup.go`). Those of endpoints that stay are never among them.
 * @param before what stood; `after` what stands; absent: nothing of mode ipvs
 */
export function lostFlows(before: IpvsState | undefined, after: IpvsState | undefined): readonly UdpFlow[] {
  return [...(before?.virtualServers ?? [])].flatMap(([key, { family, protocol, address, port, real }]) => {
    if (protocol !== 'udp') return [];
    const stays = after?.virtualServers.get(key)?.real;
    const gone = [...real.keys()].filter((endpoint) => !stays?.has(endpoint));
    return gone.map((endpoint) => ({ family, protocol, address, port, endpoint }));
  });
}
