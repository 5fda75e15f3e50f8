import { compareText, type SetKey, setName, type VirtualServer } from '@sluice/netfilter';
import type { NodeIpvs } from '../ipvs/values.ts';
import type { NodeState } from '../ports/node-state.ts';
import { approvedBy } from './approved.ts';
import type { FirstAndLast } from './first-and-last.ts';
import { overlayServers, serving } from './overlay-servers.ts';
import { losesFew } from './service-rules.ts';

/**
 * `firstAndLastOf` for mode ipvs. There rules and addresses do not change, and of the sets only the one for hairpin connections of an
 * endpoint to itself does: a virtual server without real servers refuses connections by itself.
 * @param isSame whether two states are equal
 * @returns undefined if the change is more than that, or if no virtual server gets its first real server or loses the last one
 */
export function firstAndLastServersOf(
  from: NodeState,
  desired: NodeState,
  isSame: (a: NodeState, b: NodeState) => boolean,
): FirstAndLast | undefined {
  if (!from.ipvs || !desired.ipvs) return undefined;
  const [old, fresh] = [from.ipvs, desired.ipvs];
  const edges = { first: [] as string[], last: [] as string[] };
  for (const [key, before] of old.virtualServers) {
    const after = fresh.virtualServers.get(key);
    const end = after && edgeOf(before, after, old, fresh);
    if (end) edges[end].push(frontendText(before));
  }
  if (edges.first.length + edges.last.length === 0) return undefined;
  const isEdge = (before: VirtualServer, after: VirtualServer): boolean =>
    edgeOf(before, after, old, fresh) !== undefined;
  const ipvs = overlayServers(old, fresh, { isApproved: approvedBy(from), isEdge });
  if (!isSame({ ...from, ipvs }, desired)) return undefined;
  return { first: edges.first.toSorted(compareText), last: edges.last.toSorted(compareText) };
}

/** `ipv4 tcp 10.96.0.10 80`. */
const frontendText = ({ family, protocol, address, port }: VirtualServer): string =>
  `${family} ${protocol} ${address} ${port}`;

/**
 * Whether a virtual server gets its first real server or loses the last one.
 *
 * With policy Local it has the endpoints of this node, or, if there are none, those of all other nodes (kubernetes/kubernetes#97081). It
 * then changes from one group to the other, however large they are. For external traffic that is the first or last endpoint of this node.
 * Nothing shows the policy of an address inside the cluster; it changes late in both directions, and is served meanwhile.
 */
function edgeOf(
  old: VirtualServer,
  fresh: VirtualServer,
  from: NodeIpvs,
  desired: NodeIpvs,
): keyof FirstAndLast | undefined {
  const [before, after] = [serving(old), serving(fresh)];
  const [had, has] = [before.real, after.real];
  if (had.size === 0 || has.size === 0) {
    if (had.size === has.size) return undefined;
    return had.size === 0 ? 'first' : 'last';
  }
  if (losesFew(had, has)) return undefined;
  const [was, is] = [countHere(before, from), countHere(after, desired)];
  if (was === had.size && is === 0) return 'last';
  if (was > 0 || is < has.size) return undefined;
  return isLocalOutside(before, from) ? 'first' : 'last';
}

/** The number of real servers on this node: those in the set for hairpin connections. */
function countHere({ family, protocol, real }: VirtualServer, { sets }: NodeIpvs): number {
  const entries = sets.get(setName('KUBE-LOOP-BACK', family))?.entries;
  return [...real.values()].filter(({ address, port }) => entries?.has(`${address},${protocol}:${port},${address}`))
    .length;
}

const nodePorts = {
  tcp: 'KUBE-NODE-PORT-LOCAL-TCP',
  udp: 'KUBE-NODE-PORT-LOCAL-UDP',
  sctp: 'KUBE-NODE-PORT-LOCAL-SCTP-HASH',
} as const satisfies Record<VirtualServer['protocol'], SetKey>;

/** Whether the sets have it as an external frontend with policy Local. */
function isLocalOutside({ family, protocol, address, port }: VirtualServer, { sets }: NodeIpvs): boolean {
  const has = (set: SetKey, entry: string): boolean => sets.get(setName(set, family))?.entries.has(entry) ?? false;
  const frontend = `${address},${protocol}:${port}`;
  const outside = ['KUBE-EXTERNAL-IP-LOCAL', 'KUBE-LOAD-BALANCER-LOCAL', nodePorts[protocol]] as const;
  return outside.some((set) => has(set, frontend)) || has(nodePorts[protocol], String(port));
}
