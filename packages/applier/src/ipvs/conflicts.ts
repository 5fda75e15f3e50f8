import type { IpvsState, Problem } from '@sluice/netfilter';
import type { IpvsOwned, ObservedIpvs } from './values.ts';

/**
 * Finds virtual servers and sets of the desired state that exist and are not ours. Changing them would take a virtual IP from keepalived,
 * or a set from another proxy.
 * @param owned what Sluice made before, according to its state
 * @returns `NODE_SERVERS_NOT_OURS` for virtual servers and for sets, each with the first few names
 */
export function ipvsConflicts(observed: ObservedIpvs, desired: IpvsState, owned: IpvsOwned): readonly Problem[] {
  const servers = [...desired.virtualServers.keys()].filter(
    (key) => observed.foreign.has(key) || (observed.servers.has(key) && !owned.servers.has(key)),
  );
  const sets = [...desired.sets.values()].flatMap(({ name, type, family }) => {
    const has = observed.sets.get(name);
    const isOurs = !has || (owned.sets.has(name) && has.type === type && has.family === family);
    return isOurs ? [] : [name];
  });
  return [...refuse('virtual servers', servers), ...refuse('sets', sets)];
}

function refuse(what: string, names: readonly string[]): readonly Problem[] {
  if (names.length === 0) return [];
  const some = names.slice(0, 3).join(', ') + (names.length > 3 ? `, … (${names.length} in all)` : '');
  return [
    {
      code: 'NODE_SERVERS_NOT_OURS',
      level: 'error',
      message: `Cannot apply the bundle: ${what} of its names belong to another program: ${some}`,
      hint: 'If kube-proxy made them, stop it and set `takeOver: kube-proxy` in sluiced.yaml, or run `sluiced adopt`; else take the addresses out of the bundle, or out of the other program',
    },
  ];
}
