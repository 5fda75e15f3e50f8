import type { IpvsState, Problem } from '@sluice/bundle';
import type { IpvsOwned, ObservedIpvs } from './values.ts';

/**
 * What a state wants and somebody else has. Touching it would take a virtual IP from keepalived, or a set from another proxy.
 * @param owned what Sluice's state says it made before
 * @returns `NODE_SERVERS_NOT_OURS` for virtual servers and for sets, each with the first few names
 */
export function ipvsConflicts(seen: ObservedIpvs, wanted: IpvsState, owned: IpvsOwned): readonly Problem[] {
  const servers = [...wanted.virtualServers.keys()].filter(
    (key) => seen.strange.has(key) || (seen.servers.has(key) && !owned.servers.has(key)),
  );
  const sets = [...wanted.sets.values()].flatMap(({ name, type, family }) => {
    const has = seen.sets.get(name);
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
      message: `Cannot apply the bundle: ${what} of its names were made by somebody else: ${some}`,
      hint: 'Stop the other proxy and clean up after it (`kube-proxy --cleanup`), take the addresses out of the bundle, or set `takeOver: kube-proxy` in sluiced.yaml',
    },
  ];
}
