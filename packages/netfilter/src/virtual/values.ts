import type { Family } from '../family.ts';
import { printEndpoint, type TransportProtocol } from '../rules/rule.ts';
import type { SetType } from '../rules/sets.ts';

/** Schedulers of the kernel that a Service may choose (`ip_vs_<name>`). */
export const schedulers = ['rr', 'wrr', 'lc', 'wlc', 'lblc', 'lblcr', 'sh', 'dh', 'sed', 'nq', 'mh'] as const;
export type Scheduler = (typeof schedulers)[number];
export const isScheduler = (text: string): text is Scheduler => (schedulers as readonly string[]).includes(text);

/** Options of schedulers, each with its scheduler (`ipvsadm --sched-flags`). */
export const schedulerFlags = {
  'mh-fallback': 'mh',
  'mh-port': 'mh',
  'sh-fallback': 'sh',
  'sh-port': 'sh',
} as const satisfies Record<string, Scheduler>;
export type SchedulerFlag = keyof typeof schedulerFlags;

/** An address, port and protocol from which the kernel forwards connections to real servers. */
export interface VirtualServer {
  readonly family: Family;
  readonly protocol: TransportProtocol;
  readonly address: string;
  readonly port: number;
  readonly scheduler: Scheduler;
  /** The seconds for which a client keeps its real server; absent: each connection is scheduled separately. */
  readonly persistence?: number;
  /** Sorted, without duplicates. */
  readonly flags: readonly SchedulerFlag[];
  /** By `printEndpoint(address, port)`, in the order of the files. */
  readonly real: ReadonlyMap<string, RealServer>;
}

/** One endpoint of a virtual server. */
export interface RealServer {
  readonly address: string;
  readonly port: number;
  /** With 0 it gets no new connections. */
  readonly weight: number;
}

/** The time-outs for idle connections of all virtual servers in seconds; 0: the kernel's present value. */
export interface IpvsTimeouts {
  readonly tcp: number;
  readonly tcpFin: number;
  readonly udp: number;
}

/** A set with its entries. */
export interface IpSet {
  readonly name: string;
  readonly family: Family;
  readonly type: SetType;
  /** Of hash sets: the maximum number of entries. */
  readonly maxElements?: number;
  /** As ipset prints them. */
  readonly entries: ReadonlySet<string>;
}

/** A node's state of mode ipvs besides rules and sysctls. */
export interface IpvsState {
  /** By `virtualKey`. */
  readonly virtualServers: ReadonlyMap<string, VirtualServer>;
  /** By name. */
  readonly sets: ReadonlyMap<string, IpSet>;
  /** The addresses of `kube-ipvs0`, per family, sorted in byte order. */
  readonly addresses: Readonly<Record<Family, readonly string[]>>;
  readonly timeouts?: IpvsTimeouts;
}

/** The key of a virtual server as kube-proxy spells it: `10.96.0.10:80/TCP`. */
export function virtualKey(server: Pick<VirtualServer, 'address' | 'port' | 'protocol'>): string {
  return `${printEndpoint(server.address, server.port)}/${server.protocol.toUpperCase()}`;
}

const protocolOptions = { tcp: '-t', udp: '-u', sctp: '--sctp-service' } as const satisfies Record<
  TransportProtocol,
  string
>;

/** `-t 10.96.0.10:80`: how ipvsadm names a virtual server. */
export function printVirtual(server: Pick<VirtualServer, 'address' | 'port' | 'protocol'>): string {
  return `${protocolOptions[server.protocol]} ${printEndpoint(server.address, server.port)}`;
}

/** The options after a virtual server's name, for `-A` and `-E`: ` -s rr -p 600 -M 128`. */
export function printAttributes(server: Pick<VirtualServer, 'family' | 'scheduler' | 'persistence' | 'flags'>): string {
  const mask = server.family === 'ipv6' ? ' -M 128' : '';
  const persistence = server.persistence === undefined ? '' : ` -p ${server.persistence}${mask}`;
  const flags = server.flags.length === 0 ? '' : ` -b ${server.flags.join(',')}`;
  return ` -s ${server.scheduler}${persistence}${flags}`;
}

/** `wrr`, `mh mh-port`: a scheduler with its flags. */
export function printScheduler({ scheduler, flags }: Pick<VirtualServer, 'scheduler' | 'flags'>): string {
  return [scheduler, ...flags].join(' ');
}

/** The options after a virtual server's name, for `-a` and `-e`: ` -r 10.244.1.5:8080 -m -w 1`. */
export function printReal(server: RealServer): string {
  return ` -r ${printEndpoint(server.address, server.port)} -m -w ${server.weight}`;
}

/** The virtual server and its real servers as `ipvsadm -R` reads them, a line each. */
export function printServer(server: VirtualServer): readonly string[] {
  const name = printVirtual(server);
  return [
    `-A ${name}${printAttributes(server)}`,
    ...[...server.real.values()].map((real) => `-a ${name}${printReal(real)}`),
  ];
}

/** The line that creates a set, for `ipset restore`. */
export function printCreate({ name, type, family, maxElements = 65_536 }: Omit<IpSet, 'entries'>): string {
  if (type === 'bitmap:port') return `create ${name} bitmap:port range 0-65535`;
  const inet = family === 'ipv4' ? 'inet' : 'inet6';
  return `create ${name} ${type} family ${inet} hashsize 1024 maxelem ${maxElements}`;
}

/** Every set with its entries, for `ipset restore`. */
export function printSets({ sets }: Pick<IpvsState, 'sets'>): string {
  const lines = [...sets.values()].flatMap((set) => [
    printCreate(set),
    ...[...set.entries].map((entry) => `add ${set.name} ${entry}`),
  ]);
  return lines.map((line) => `${line}\n`).join('');
}

/** The time-outs, then every virtual server with its real servers, for `ipvsadm -R`. */
export function printServers({ virtualServers, timeouts }: Pick<IpvsState, 'virtualServers' | 'timeouts'>): string {
  const head = timeouts ? [`--set ${timeouts.tcp} ${timeouts.tcpFin} ${timeouts.udp}`] : [];
  return [...head, ...[...virtualServers.values()].flatMap(printServer)].map((line) => `${line}\n`).join('');
}
