import { printVirtual } from '@sluice/netfilter';
import type { Drain, ObservedIpvs, IpvsStep } from './values.ts';

/** How many connections real servers have, active and inactive: by `virtualKey`, then by `10.244.1.5:8080`. */
export type Connections = ReadonlyMap<string, ReadonlyMap<string, number>>;

/**
 * Plans the removal of draining real servers: those without connections, and those whose time is over.
 * @returns at most one step, and the real servers that still drain. One that another program removed, or gave a weight again, no longer
 *   counts as draining
 */
export function continueDrains(
  draining: readonly Drain[],
  observed: Pick<ObservedIpvs, 'servers'>,
  connections: Connections,
  now: number,
): { readonly steps: readonly IpvsStep[]; readonly draining: readonly Drain[] } {
  const active = draining.filter(({ server, real }) => observed.servers.get(server)?.real.get(real)?.weight === 0);
  const leaves = ({ server, real, until }: Drain): boolean =>
    until <= now || (connections.get(server)?.get(real) ?? 0) === 0;
  const lines = active.filter(leaves).flatMap(({ server, real }) => {
    const virtual = observed.servers.get(server);
    return virtual ? [`-d ${printVirtual(virtual)} -r ${real}\n`] : [];
  });
  const because = 'real servers that drained';
  const steps: readonly IpvsStep[] = lines.length === 0 ? [] : [{ kind: 'ipvsadm', text: lines.join(''), because }];
  return { steps, draining: active.filter((drain) => !leaves(drain)) };
}
