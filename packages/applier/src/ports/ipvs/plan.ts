import { type Family, ipvsInterface, type IpvsState } from '@sluice/netfilter';
import { serverChanges, type ServerOptions } from './servers.ts';
import { emptySets, fillSets } from './sets.ts';
import type { Drain, IpvsOwned, IpvsPlan, ObservedIpvs, IpvsStep } from './values.ts';

/**
 * The steps from the observed to the desired state; none if they are equal. A rollback is a plan to the previous state.
 *
 * @param desired the state of a bundle; `emptyIpvs` in mode iptables
 * @param owned what is ours, `desired` included: nothing else is changed or removed
 * @param draining real servers that drain already
 */
export function planIpvs(
  observed: ObservedIpvs,
  desired: IpvsState,
  owned: IpvsOwned,
  draining: readonly Drain[],
  options: ServerOptions,
): IpvsPlan {
  const servers = serverChanges(observed, desired, owned, draining, options);
  return {
    sets: fillSets(observed, desired),
    servers: batch('ipvsadm', [...timeoutLines(observed, desired), ...servers.adds], 'new servers, raised weights'),
    bind: batch('ip', bindLines(observed, desired), 'new addresses'),
    weights: batch('ipvsadm', servers.weights, 'lowered weights'),
    remove: [
      ...batch('ip', unbindLines(observed, desired, owned), 'unused addresses'),
      ...batch('ipvsadm', servers.removes, 'unused servers'),
      ...emptySets(observed, desired, owned),
    ],
    draining: servers.draining,
  };
}

/** All steps of a plan in order, without the rules that change between `bind` and `weights`. */
export function ipvsSteps(plan: IpvsPlan): readonly IpvsStep[] {
  return [...plan.sets, ...plan.servers, ...plan.bind, ...plan.weights, ...plan.remove];
}

/** 0 keeps the value of the kernel, so only other values are compared. */
function timeoutLines({ timeouts: has }: ObservedIpvs, { timeouts: desired }: IpvsState): readonly string[] {
  if (!desired) return [];
  const differs = (['tcp', 'tcpFin', 'udp'] as const).some(
    (name) => desired[name] !== 0 && desired[name] !== has?.[name],
  );
  return differs ? [`--set ${desired.tcp} ${desired.tcpFin} ${desired.udp}`] : [];
}

const families = ['ipv4', 'ipv6'] as const satisfies readonly Family[];
const prefix = { ipv4: '/32', ipv6: '/128' } as const satisfies Record<Family, string>;

/**
 * IPv6 without duplicate detection: every node has the same address, and the interface sends nothing. And deprecated, so that it is never
 * chosen as a source address (RFC 6724, rule 3): a Service's address is often nearer to a pod's than any of the node's own, and the answers
 * to masqueraded packets would go to the node of the pod.
 */
const addressOptions = { ipv4: '', ipv6: ' nodad preferred_lft 0' } as const satisfies Record<Family, string>;

/** The line that adds an address to the interface, for `ip -batch`. */
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

/** The interface itself is removed with its last address, unless it has a foreign one. */
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
