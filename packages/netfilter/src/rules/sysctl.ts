/** One line `key = value` of a `sysctl.conf`. */
export interface Sysctl {
  readonly key: SysctlKey;
  readonly value: number;
}

interface SysctlRange {
  /** The file of the value. A constant: a path made from text could leave /proc/sys. */
  readonly path: string;
  readonly min: number;
  readonly max: number;
}

const conntrack = '/proc/sys/net/netfilter';
const intMax = 0x7fffffff;
/** Thirty days: longer time-outs do not help any connection table. */
const secondsMax = 30 * 24 * 60 * 60;
/** A time-out of connection tracking, in seconds. */
const timeout = (name: string) => ({ path: `${conntrack}/nf_conntrack_${name}`, min: 1, max: secondsMax }) as const;
const flag = { min: 0, max: 1 };
/** Forwarding may only be enabled: without it no packet reaches a pod. */
const on = { min: 1, max: 1 };

const ipv4 = '/proc/sys/net/ipv4';
const ipv6 = '/proc/sys/net/ipv6';
const core = '/proc/sys/net/core';
const ipvs = `${ipv4}/vs`;
/** The neighbour tables, the first to overflow on a node with many pods. */
const neighbours = { min: 128, max: 1 << 22 };
const queue = { min: 128, max: 1 << 20 };

/**
 * The allow-list: every sysctl that a profile may set, with its valid values, as documented by the kernel in `ip-sysctl.rst`,
 * `nf_conntrack-sysctl.rst` and `ipvs-sysctl.rst`. kube-proxy sets most of the conntrack keys, `route_localnet` for node ports on
 * 127.0.0.1, and in mode ipvs four keys of `vs` and two for ARP; every node with pods needs forwarding, and large clusters raise
 * queues and neighbour tables. Time-outs of connection tracking are those of `nf_conntrack-sysctl.rst` but DCCP's, which newer kernels lack.
 */
const allowed = {
  'net.core.netdev_max_backlog': { path: `${core}/netdev_max_backlog`, ...queue },
  'net.core.somaxconn': { path: `${core}/somaxconn`, ...queue },
  'net.ipv4.conf.all.arp_announce': { path: `${ipv4}/conf/all/arp_announce`, min: 0, max: 2 },
  // 4 to 8 would leave ARP requests for Service addresses unanswered.
  'net.ipv4.conf.all.arp_ignore': { path: `${ipv4}/conf/all/arp_ignore`, min: 0, max: 3 },
  'net.ipv4.conf.all.route_localnet': { path: '/proc/sys/net/ipv4/conf/all/route_localnet', ...flag },
  'net.ipv4.ip_forward': { path: '/proc/sys/net/ipv4/ip_forward', ...on },
  'net.ipv4.neigh.default.gc_thresh1': { path: `${ipv4}/neigh/default/gc_thresh1`, ...neighbours },
  'net.ipv4.neigh.default.gc_thresh2': { path: `${ipv4}/neigh/default/gc_thresh2`, ...neighbours },
  'net.ipv4.neigh.default.gc_thresh3': { path: `${ipv4}/neigh/default/gc_thresh3`, ...neighbours },
  // 0, 1, or a mask of bits 1 and 2 since Linux 4.1.
  'net.ipv4.vs.conn_reuse_mode': { path: `${ipvs}/conn_reuse_mode`, min: 0, max: 3 },
  'net.ipv4.vs.conntrack': { path: `${ipvs}/conntrack`, ...flag },
  'net.ipv4.vs.expire_nodest_conn': { path: `${ipvs}/expire_nodest_conn`, ...flag },
  'net.ipv4.vs.expire_quiescent_template': { path: `${ipvs}/expire_quiescent_template`, ...flag },
  'net.ipv4.vs.sloppy_sctp': { path: `${ipvs}/sloppy_sctp`, ...flag },
  'net.ipv4.vs.sloppy_tcp': { path: `${ipvs}/sloppy_tcp`, ...flag },
  'net.ipv6.conf.all.forwarding': { path: '/proc/sys/net/ipv6/conf/all/forwarding', ...on },
  'net.ipv6.neigh.default.gc_thresh1': { path: `${ipv6}/neigh/default/gc_thresh1`, ...neighbours },
  'net.ipv6.neigh.default.gc_thresh2': { path: `${ipv6}/neigh/default/gc_thresh2`, ...neighbours },
  'net.ipv6.neigh.default.gc_thresh3': { path: `${ipv6}/neigh/default/gc_thresh3`, ...neighbours },
  // Linux has it off: each connection then costs 16 bytes and each packet two additions more.
  'net.netfilter.nf_conntrack_acct': { path: `${conntrack}/nf_conntrack_acct`, ...flag },
  'net.netfilter.nf_conntrack_generic_timeout': timeout('generic_timeout'),
  'net.netfilter.nf_conntrack_gre_timeout': timeout('gre_timeout'),
  'net.netfilter.nf_conntrack_gre_timeout_stream': timeout('gre_timeout_stream'),
  'net.netfilter.nf_conntrack_icmp_timeout': timeout('icmp_timeout'),
  'net.netfilter.nf_conntrack_icmpv6_timeout': timeout('icmpv6_timeout'),
  'net.netfilter.nf_conntrack_max': { path: `${conntrack}/nf_conntrack_max`, min: 1024, max: intMax },
  'net.netfilter.nf_conntrack_sctp_timeout_closed': timeout('sctp_timeout_closed'),
  'net.netfilter.nf_conntrack_sctp_timeout_cookie_echoed': timeout('sctp_timeout_cookie_echoed'),
  'net.netfilter.nf_conntrack_sctp_timeout_cookie_wait': timeout('sctp_timeout_cookie_wait'),
  'net.netfilter.nf_conntrack_sctp_timeout_established': timeout('sctp_timeout_established'),
  'net.netfilter.nf_conntrack_sctp_timeout_heartbeat_sent': timeout('sctp_timeout_heartbeat_sent'),
  'net.netfilter.nf_conntrack_sctp_timeout_shutdown_ack_sent': timeout('sctp_timeout_shutdown_ack_sent'),
  'net.netfilter.nf_conntrack_sctp_timeout_shutdown_recd': timeout('sctp_timeout_shutdown_recd'),
  'net.netfilter.nf_conntrack_sctp_timeout_shutdown_sent': timeout('sctp_timeout_shutdown_sent'),
  'net.netfilter.nf_conntrack_tcp_be_liberal': { path: `${conntrack}/nf_conntrack_tcp_be_liberal`, ...flag },
  'net.netfilter.nf_conntrack_tcp_timeout_close': timeout('tcp_timeout_close'),
  'net.netfilter.nf_conntrack_tcp_timeout_close_wait': timeout('tcp_timeout_close_wait'),
  'net.netfilter.nf_conntrack_tcp_timeout_established': timeout('tcp_timeout_established'),
  'net.netfilter.nf_conntrack_tcp_timeout_fin_wait': timeout('tcp_timeout_fin_wait'),
  'net.netfilter.nf_conntrack_tcp_timeout_last_ack': timeout('tcp_timeout_last_ack'),
  'net.netfilter.nf_conntrack_tcp_timeout_max_retrans': timeout('tcp_timeout_max_retrans'),
  'net.netfilter.nf_conntrack_tcp_timeout_syn_recv': timeout('tcp_timeout_syn_recv'),
  'net.netfilter.nf_conntrack_tcp_timeout_syn_sent': timeout('tcp_timeout_syn_sent'),
  'net.netfilter.nf_conntrack_tcp_timeout_time_wait': timeout('tcp_timeout_time_wait'),
  'net.netfilter.nf_conntrack_tcp_timeout_unacknowledged': timeout('tcp_timeout_unacknowledged'),
  'net.netfilter.nf_conntrack_udp_timeout': timeout('udp_timeout'),
  'net.netfilter.nf_conntrack_udp_timeout_stream': timeout('udp_timeout_stream'),
} as const satisfies Record<string, SysctlRange>;

export type SysctlKey = keyof typeof allowed;

/** All keys of the allow-list, in byte order. */
export const sysctlKeys = Object.keys(allowed) as readonly SysctlKey[];

function isSysctlKey(text: string): text is SysctlKey {
  return Object.hasOwn(allowed, text);
}

/** The least and the greatest value of a key. */
export function sysctlRange(key: SysctlKey): { readonly min: number; readonly max: number } {
  const { min, max } = allowed[key];
  return { min, max };
}

/** The kernel's file of a key. */
export function procPath(key: SysctlKey): string {
  return allowed[key].path;
}

/**
 * Checks one setting against the allow-list.
 * @returns the setting, or the error in a sentence
 */
export function checkSysctl(key: string, value: string): Sysctl | string {
  if (!isSysctlKey(key)) return `Cannot set sysctl ${JSON.stringify(key)}: it is not in the allow-list`;
  const { min, max } = allowed[key];
  const number = /^(?:0|[1-9][0-9]{0,9})$/.test(value) ? Number(value) : Number.NaN;
  if (number >= min && number <= max) return { key, value: number };
  const range = min < max ? `a whole number from ${min} to ${max}` : String(min);
  return `Cannot set sysctl ${key} to ${JSON.stringify(value)}: the value must be ${range}`;
}

/** Reads a line `key = value`. @returns the setting, or the error in a sentence */
export function readSysctlLine(line: string): Sysctl | string {
  const match = /^(\S+) = (\S+)$/.exec(line);
  if (!match) return `Cannot read sysctl line ${JSON.stringify(line)}: it is not of the form "key = value"`;
  return checkSysctl(match[1] ?? '', match[2] ?? '');
}

/** `key = value`, as `sysctl -p` reads it. */
export function printSysctl(setting: Sysctl): string {
  return `${setting.key} = ${setting.value}`;
}
