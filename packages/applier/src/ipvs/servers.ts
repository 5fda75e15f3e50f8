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
} from '@sluice/bundle';
import type { Drain, IpvsOwned, ObservedIpvs } from './values.ts';

/** What happens to virtual and real servers, as lines for `ipvsadm -R`, by when it may happen. */
export interface ServerChanges {
  /** Before any packet meets it, or harmless to every connection. */
  readonly adds: readonly string[];
  /** Weights that fall. */
  readonly weights: readonly string[];
  readonly removes: readonly string[];
  readonly draining: readonly Drain[];
}

/** What the planner is told besides states. */
export interface ServerOptions {
  /** Milliseconds since 1970. */
  readonly now: number;
  /** How long a real server may drain. */
  readonly drainMs: number;
  /** Virtual servers with an address in one of these are never changed or removed. */
  readonly excludeCIDRs: readonly string[];
}

/**
 * The changes from the servers that the kernel shows to those that are wanted.
 * @param draining what drains by now; a real server that is wanted again leaves the list and gets its weight back
 */
export function serverChanges(
  seen: ObservedIpvs,
  wanted: IpvsState,
  owned: IpvsOwned,
  draining: readonly Drain[],
  options: ServerOptions,
): ServerChanges {
  const changes: ServerChangeLists = { adds: [], weights: [], removes: [], draining: [] };
  const before = new Map(draining.map((drain) => [`${drain.server} ${drain.real}`, drain]));
  const untouched = isExcluded(options.excludeCIDRs);
  for (const [key, server] of wanted.virtualServers) {
    if (untouched(server)) continue;
    const has = seen.servers.get(key);
    if (has) changeServer(key, has, server, before, options, changes);
    else addAll(changes.adds, printServer(server));
  }
  const gone = [...seen.servers].filter(([key]) => owned.servers.has(key) && !wanted.virtualServers.has(key));
  for (const [, server] of gone) if (!untouched(server)) changes.removes.push(`-D ${printVirtual(server)}`);
  return changes;
}

interface ServerChangeLists {
  readonly adds: string[];
  readonly weights: string[];
  readonly removes: string[];
  readonly draining: Drain[];
}

/** Memory of excluded networks: most nodes have none, and then nothing is compared. */
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
 * Whether real servers of this virtual server leave by way of weight 0. Flows of UDP and SCTP end with their real server
 * (`expire_nodest_conn`). Schedulers dh, and sh without its fallback, go on choosing a real server of weight 0 for some
 * clients and refuse these (`ip_vs_dh_schedule`, `ip_vs_sh_get`), so there it leaves at once.
 */
function drains({ protocol, scheduler, flags }: VirtualServer): boolean {
  if (protocol !== 'tcp' || scheduler === 'dh') return false;
  return scheduler !== 'sh' || flags.includes('sh-fallback');
}

/**
 * The kinds of virtual servers that a state has: by their attributes, whose schedulers and flags the kernel must have. It takes any
 * time of persistence.
 */
export function kindsOf(state: Pick<IpvsState, 'virtualServers'> | undefined): ReadonlySet<string> {
  const servers = [...(state?.virtualServers.values() ?? [])];
  return new Set(servers.map((server) => printAttributes(server).replace(/ -p \d+/, ' -p 360')));
}
