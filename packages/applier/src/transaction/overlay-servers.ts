import { type Family, type IpSet, setName, type VirtualServer } from '@sluice/bundle';
import type { NodeIpvs } from '../ipvs/values.ts';
import { familyNames } from '../rollout/state.ts';
import { endpointsText } from './endpoints-text.ts';
import { type Loss, withinLoss } from './service.ts';

/** What is taken of another state. */
export interface Bounds {
  /** Whether an endpoint may come at this address. */
  readonly isApproved: (address: string) => boolean;
  /** How many it may lose; left out: few. */
  readonly loss?: Loss;
  /** Sets of endpoints that are not taken, by `virtualKey`. */
  readonly declined?: ReadonlyMap<string, string>;
  /** Changes of a virtual server that are taken although they are more than `onlyEndpointsDiffer` allows, but for addresses and ports. */
  readonly isEnd?: (before: VirtualServer, after: VirtualServer) => boolean;
}

/**
 * Mode ipvs with the real servers of another state, for each virtual server that both have, within the bounds of
 * `onlyEndpointsDiffer`; and the set that masquerades connections of an endpoint to itself.
 * @returns `base` itself when it takes nothing
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

/** A scheduler or a time-out that differs is a matter of releases: the server keeps its own. */
function takesReal(before: VirtualServer, after: VirtualServer, { isApproved, isEnd, loss = 'few' }: Bounds): boolean {
  const [had, has] = [before.real, after.real];
  if (had === has || sameReal(before, after)) return false;
  const fresh = [...has].filter(([endpoint]) => !had.has(endpoint));
  if (!fresh.every(([, { address }]) => isApproved(address))) return false;
  const ports = new Set([...had.values()].map(({ port }) => port));
  if (had.size > 0 && [...has.values()].some(({ port }) => !ports.has(port))) return false;
  const [served, serves] = [serving(before).real, serving(after).real];
  const isUpdate = served.size > 0 && withinLoss[loss](served, serves);
  return isUpdate || (isEnd?.(before, after) ?? false);
}

/** A virtual server without the real ones that get no new connections: a weight of 0 is as good as gone. */
export function serving(server: VirtualServer): VirtualServer {
  return { ...server, real: new Map([...server.real].filter(([, { weight }]) => weight > 0)) };
}

/** Whether two virtual servers have the same real ones with the same weights. */
export function sameReal({ real: a }: VirtualServer, { real: b }: VirtualServer): boolean {
  return a.size === b.size && [...a].every(([endpoint, { weight }]) => b.get(endpoint)?.weight === weight);
}

/** The entries of endpoints that are there, whichever of the two has them: `10.244.1.5,tcp:8080,10.244.1.5`. */
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
