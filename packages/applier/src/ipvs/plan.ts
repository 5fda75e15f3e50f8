import { type Family, ipvsInterface, type IpvsState } from '@sluice/bundle';
import { serverChanges, type ServerOptions } from './servers.ts';
import { emptySets, fillSets } from './sets.ts';
import type { Drain, IpvsOwned, IpvsPlan, ObservedIpvs, IpvsStep } from './values.ts';

/**
 * The steps from what the kernel shows to what is wanted; none when they are equal. Going back is a plan to the state before.
 *
 * @param wanted what a bundle says; `nothing` in mode iptables
 * @param owned what is Sluice's, `wanted` included: nothing else is changed or removed
 * @param draining real servers that were on their way out
 */
export function planIpvs(
  seen: ObservedIpvs,
  wanted: IpvsState,
  owned: IpvsOwned,
  draining: readonly Drain[],
  options: ServerOptions,
): IpvsPlan {
  const servers = serverChanges(seen, wanted, owned, draining, options);
  return {
    sets: fillSets(seen, wanted),
    servers: batch(
      'ipvsadm',
      [...timeoutLines(seen, wanted), ...servers.adds],
      'servers that are new, weights that rise',
    ),
    bind: batch('ip', bindLines(seen, wanted), 'addresses come to the machine'),
    weights: batch('ipvsadm', servers.weights, 'weights that fall'),
    remove: [
      ...batch('ip', unbindLines(seen, wanted, owned), 'addresses that nobody wants'),
      ...batch('ipvsadm', servers.removes, 'servers that nobody wants'),
      ...emptySets(seen, wanted, owned),
    ],
    draining: servers.draining,
  };
}

/** All steps of a plan in order, without the rules that change between `bind` and `weights`. */
export function ipvsSteps(plan: IpvsPlan): readonly IpvsStep[] {
  return [...plan.sets, ...plan.servers, ...plan.bind, ...plan.weights, ...plan.remove];
}

/** 0 keeps what the kernel has, so only other numbers that differ count. */
function timeoutLines({ timeouts: has }: ObservedIpvs, { timeouts: wants }: IpvsState): readonly string[] {
  if (!wants) return [];
  const differs = (['tcp', 'tcpFin', 'udp'] as const).some((name) => wants[name] !== 0 && wants[name] !== has?.[name]);
  return differs ? [`--set ${wants.tcp} ${wants.tcpFin} ${wants.udp}`] : [];
}

const families = ['ipv4', 'ipv6'] as const satisfies readonly Family[];
const prefix = { ipv4: '/32', ipv6: '/128' } as const satisfies Record<Family, string>;

/**
 * IPv6 without waiting for duplicates: the same address stands on every node, and the interface sends nothing. And deprecated, so that
 * nothing else is sent from it (RFC 6724, rule 3): a Service's address is often nearer to a pod's than any of the node's own, and
 * masqueraded packets would be answered to whichever node the pod is on.
 */
const addressOptions = { ipv4: '', ipv6: ' nodad preferred_lft 0' } as const satisfies Record<Family, string>;

/** What gives the interface an address, for `ip -batch`. */
export function bindLine(address: string, family: Family): string {
  return `addr add ${address}${prefix[family]} dev ${ipvsInterface}${addressOptions[family]}`;
}

function bindLines({ bound, elsewhere }: ObservedIpvs, { addresses }: IpvsState): readonly string[] {
  const lines = families.flatMap((family) =>
    addresses[family]
      .filter((address) => !bound?.[family].has(address) && !elsewhere[family].has(address))
      .map((address) => bindLine(address, family)),
  );
  return bound || lines.length === 0 ? lines : [`link add ${ipvsInterface} type dummy`, ...lines];
}

/** The interface itself goes with the last address, if nobody else put one there. */
function unbindLines({ bound }: ObservedIpvs, { addresses }: IpvsState, owned: IpvsOwned): readonly string[] {
  if (!bound) return [];
  const leaving = families.flatMap((family) => {
    const stays = new Set(addresses[family]);
    return [...bound[family]]
      .filter((address) => owned.addresses.has(address) && !stays.has(address))
      .map((address) => `addr del ${address}${prefix[family]} dev ${ipvsInterface}`);
  });
  const count = bound.ipv4.size + bound.ipv6.size;
  const isLast = addresses.ipv4.length + addresses.ipv6.length === 0 && leaving.length === count;
  return isLast && owned.link ? [`link del ${ipvsInterface}`] : leaving;
}

function batch(kind: IpvsStep['kind'], lines: readonly string[], because: string): readonly IpvsStep[] {
  return lines.length === 0 ? [] : [{ kind, text: lines.map((line) => `${line}\n`).join(''), because }];
}
