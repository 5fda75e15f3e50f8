import { type Family, type IpSet, setName, type VirtualServer } from '@sluice/netfilter';
import type { NodeIpvs } from '../ipvs/values.ts';
import { familyNames } from '../ports/node-state.ts';
import { endpointsText } from './endpoints-text.ts';
import { type LossBound, withinLossBound } from './service-rules.ts';

/** The bounds within which endpoints of another state are taken. */
export interface Bounds {
  /** Whether a new endpoint may have this address. */
  readonly isApproved: (address: string) => boolean;
  /** How many endpoints it may lose; left out: few. */
  readonly loss?: LossBound;
  /** Sets of endpoints that are not taken, by `virtualKey`. */
  readonly declined?: ReadonlyMap<string, string>;
  /** Allows changes of a virtual server beyond the bound of `loss`, if addresses and ports are allowed. */
  readonly isEdge?: (before: VirtualServer, after: VirtualServer) => boolean;
}

/**
 * `overlayEndpoints` for mode ipvs: each virtual server of both states gets the real servers of the other one, within the bounds of
 * `onlyEndpointsDiffer`. The set for hairpin connections of an endpoint to itself changes with them.
 * @returns `base` itself if it takes nothing
 */
export function overlayServers(base: NodeIpvs, offered: NodeIpvs, bounds: Bounds): NodeIpvs {
  const virtualServers = new Map(base.virtualServers);
  for (const [key, server] of base.virtualServers) {
    const other = offered.virtualServers.get(key);
    if (other && takesReal(server, other, bounds) && !isDeclined(key, other, bounds))
      virtualServers.set(key, { ...server, real: other.real });
  }
  if ([...virtualServers].every(([key, server]) => server === base.virtualServers.get(key))) return base;
  const sets = new Map(base.sets);
  for (const family of familyNames) {
    const name = setName('KUBE-LOOP-BACK', family);
    const [own, other] = [base.sets.get(name), offered.sets.get(name)];
    if (own && other) sets.set(name, loopBack(family, own, other, virtualServers));
  }
  return { ...base, virtualServers, sets };
}

function isDeclined(key: string, offered: VirtualServer, { declined }: Bounds): boolean {
  const offers = declined?.get(key);
  return offers !== undefined && offers === endpointsText(serving(offered).real.keys());
}

/** A changed scheduler or time-out needs a release: the server keeps its own. */
function takesReal(before: VirtualServer, after: VirtualServer, { isApproved, isEdge, loss = 'few' }: Bounds): boolean {
  const [had, has] = [before.real, after.real];
  if (had === has || sameReal(before, after)) return false;
  const fresh = [...has].filter(([endpoint]) => !had.has(endpoint));
  if (!fresh.every(([, { address }]) => isApproved(address))) return false;
  const ports = new Set([...had.values()].map(({ port }) => port));
  if (had.size > 0 && [...has.values()].some(({ port }) => !ports.has(port))) return false;
  const [served, serves] = [serving(before).real, serving(after).real];
  const isUpdate = served.size > 0 && withinLossBound[loss](served, serves);
  return isUpdate || (isEdge?.(before, after) ?? false);
}

/** A virtual server without the real servers of weight 0, which get no new connections. */
export function serving(server: VirtualServer): VirtualServer {
  return { ...server, real: new Map([...server.real].filter(([, { weight }]) => weight > 0)) };
}

/** Whether two virtual servers have the same real servers with the same weights. */
export function sameReal({ real: a }: VirtualServer, { real: b }: VirtualServer): boolean {
  return a.size === b.size && [...a].every(([endpoint, { weight }]) => b.get(endpoint)?.weight === weight);
}

/** The set for hairpin connections, with the entries of both sets for present endpoints: `10.244.1.5,tcp:8080,10.244.1.5`. */
function loopBack(family: Family, own: IpSet, other: IpSet, servers: ReadonlyMap<string, VirtualServer>): IpSet {
  const served = new Set(
    [...servers.values()]
      .filter((server) => server.family === family)
      .flatMap(({ protocol, real }) =>
        [...real.values()].map(({ address, port }) => `${address},${protocol}:${port},${address}`),
      ),
  );
  const entries = new Set([...own.entries, ...other.entries].filter((entry) => served.has(entry)));
  return { ...own, entries };
}
