import {
  addAll,
  cidrContains,
  type IpvsState,
  printAttributes,
  printReal,
  printServer,
  printVirtual,
  type RealServer,
  type VirtualServer,
} from '@sluice/netfilter';
import type { Drain, IpvsOwned, ObservedIpvs } from './values.ts';

/** Changes of virtual and real servers, as lines for `ipvsadm -R`, by the phase in which they may be applied. */
interface ServerChanges {
  /** Lines that harm no connection. */
  readonly adds: readonly string[];
  /** Lowered weights. */
  readonly weights: readonly string[];
  readonly removes: readonly string[];
  readonly draining: readonly Drain[];
}

/** Settings of the planner. */
export interface ServerOptions {
  /** Milliseconds since 1970. */
  readonly now: number;
  /** How long a real server may drain. */
  readonly drainMs: number;
  /** Virtual servers with an address in one of these are never changed or removed. */
  readonly excludeCIDRs: readonly string[];
}

/**
 * The changes from the observed to the desired servers.
 * @param draining the real servers that drain; one that is desired again leaves the list and gets its weight back
 */
export function serverChanges(
  observed: ObservedIpvs,
  desired: IpvsState,
  owned: IpvsOwned,
  draining: readonly Drain[],
  options: ServerOptions,
): ServerChanges {
  const changes: ServerChangeLists = { adds: [], weights: [], removes: [], draining: [] };
  const before = new Map(draining.map((drain) => [`${drain.server} ${drain.real}`, drain]));
  const untouched = isExcluded(options.excludeCIDRs);
  for (const [key, server] of desired.virtualServers) {
    if (untouched(server)) continue;
    const has = observed.servers.get(key);
    if (has) changeServer(key, has, server, before, options, changes);
    else addAll(changes.adds, printServer(server));
  }
  const gone = [...observed.servers].filter(([key]) => owned.servers.has(key) && !desired.virtualServers.has(key));
  for (const [, server] of gone) if (!untouched(server)) changes.removes.push(`-D ${printVirtual(server)}`);
  return changes;
}

interface ServerChangeLists {
  readonly adds: string[];
  readonly weights: string[];
  readonly removes: string[];
  readonly draining: Drain[];
}

function isExcluded(cidrs: readonly string[]): (server: VirtualServer) => boolean {
  return ({ address }) => cidrs.some((cidr) => cidrContains(cidr, address));
}

function changeServer(
  key: string,
  has: VirtualServer,
  server: VirtualServer,
  before: ReadonlyMap<string, Drain>,
  options: ServerOptions,
  changes: ServerChangeLists,
): void {
  const name = printVirtual(server);
  if (printAttributes(has) !== printAttributes(server)) changes.adds.push(`-E ${name}${printAttributes(server)}`);
  for (const [endpoint, real] of server.real) {
    const old = has.real.get(endpoint);
    if (!old) changes.adds.push(`-a ${name}${printReal(real)}`);
    else if (old.weight !== real.weight)
      (old.weight < real.weight ? changes.adds : changes.weights).push(`-e ${name}${printReal(real)}`);
  }
  for (const [endpoint, real] of has.real) {
    if (server.real.has(endpoint)) continue;
    if (!drains(server)) {
      changes.removes.push(`-d ${name} -r ${endpoint}`);
      continue;
    }
    if (real.weight !== 0) changes.weights.push(`-e ${name}${printReal(stopped(real))}`);
    const until = before.get(`${key} ${endpoint}`)?.until ?? options.now + options.drainMs;
    changes.draining.push({ server: key, real: endpoint, until });
  }
}

const stopped = (real: RealServer): RealServer => ({ ...real, weight: 0 });

/**
 * Whether real servers of this virtual server drain with weight 0 before they are removed. Flows of UDP and SCTP end with their real
 * server (`expire_nodest_conn`). Schedulers dh, and sh without its fallback, still choose a real server of weight 0 for some clients and
 * refuse these (`ip_vs_dh_schedule`, `ip_vs_sh_get`), so there it is removed at once.
 */
function drains({ protocol, scheduler, flags }: VirtualServer): boolean {
  if (protocol !== 'tcp' || scheduler === 'dh') return false;
  return scheduler !== 'sh' || flags.includes('sh-fallback');
}

/**
 * The kinds of virtual servers of a state: their attributes, whose schedulers and flags the kernel must support. Any time of persistence
 * is the same kind.
 */
export function kindsOf(state: Pick<IpvsState, 'virtualServers'> | undefined): ReadonlySet<string> {
  const servers = [...(state?.virtualServers.values() ?? [])];
  return new Set(servers.map((server) => printAttributes(server).replace(/ -p \d+/, ' -p 360')));
}
