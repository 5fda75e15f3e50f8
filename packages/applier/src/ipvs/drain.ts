import { compareText, printVirtual, virtualKey } from '@sluice/bundle';
import type { Drain, ObservedIpvs, IpvsStep } from './values.ts';

/** How many connections real servers have, active and inactive: by `virtualKey`, then by `10.244.1.5:8080`. */
export type Connections = ReadonlyMap<string, ReadonlyMap<string, number>>;

/**
 * Goes on with real servers that drain: those without connections leave, and those whose time is over.
 * @returns at most one step, and what still drains. A real server that somebody removed is forgotten, and one whose weight is
 *   not 0 any more was taken back into service by somebody: it is left to them
 */
export function continueDrains(
  draining: readonly Drain[],
  seen: Pick<ObservedIpvs, 'servers'>,
  connections: Connections,
  now: number,
): { readonly steps: readonly IpvsStep[]; readonly draining: readonly Drain[] } {
  const active = draining.filter(({ server, real }) => seen.servers.get(server)?.real.get(real)?.weight === 0);
  const leaves = ({ server, real, until }: Drain): boolean =>
    until <= now || (connections.get(server)?.get(real) ?? 0) === 0;
  const lines = active.filter(leaves).flatMap(({ server, real }) => {
    const virtual = seen.servers.get(server);
    return virtual ? [`-d ${printVirtual(virtual)} -r ${real}\n`] : [];
  });
  const because = 'real servers that drained';
  const steps: readonly IpvsStep[] = lines.length === 0 ? [] : [{ kind: 'ipvsadm', text: lines.join(''), because }];
  return { steps, draining: active.filter((drain) => !leaves(drain)) };
}

/**
 * Real servers of weight 0 that a state wants with a weight: a process that died while they drained left them so.
 * A plan to the state gives them their weight back; this tells whether there is need for one.
 */
export function stuckAtZero(seen: Pick<ObservedIpvs, 'servers'>, wanted: ObservedIpvs['servers']): readonly string[] {
  const stuck = [...wanted.values()].flatMap((server) =>
    [...server.real].flatMap(([endpoint, { weight }]) => {
      const has = seen.servers.get(virtualKey(server))?.real.get(endpoint);
      return weight > 0 && has?.weight === 0 ? [`${virtualKey(server)} ${endpoint}`] : [];
    }),
  );
  return stuck.toSorted(compareText);
}
