import { compareText } from '@sluice/netfilter';

/** Forms of tool output that the clock, the traffic and the order of a hash do not change. */

/** `iptables-save` without comments, counters and empty lines. The order is that of the kernel. */
export function canonicalRules(text: string): readonly string[] {
  return linesOf(text).flatMap((line) => {
    if (line.startsWith('#')) return [];
    return [line.startsWith(':') ? line.replace(/ \[\d+:\d+\]$/, '') : line.replace(/^\[\d+:\d+\] /, '')];
  });
}

/**
 * `ipset save`: sets and their entries in byte order. Counters, time-outs and what the kernel chose for its hash (size, seed) are left out;
 * comments of entries stay.
 */
export function canonicalSets(lines: readonly string[]): readonly string[] {
  return lines
    .filter(isFilled)
    .map((line) => line.replaceAll(/ (?:packets|bytes|timeout|hashsize|initval|bucketsize) (?:0x[0-9a-f]+|\d+)/g, ''))
    .toSorted(compareText);
}

/** `ipvsadm -S -n`: virtual servers in byte order, each before its real ones. */
export function canonicalServers(lines: readonly string[]): readonly string[] {
  return lines
    .filter(isFilled)
    .map((line) => line.trim())
    .toSorted((a, b) => compareText(keyOfServer(a), keyOfServer(b)) || compareText(a, b));
}

/** `-A -t 10.96.0.10:80 …` and `-a -t 10.96.0.10:80 …` have one key. */
const keyOfServer = (line: string): string => line.split(' ').slice(1, 3).join(' ');

/** `ip route show table all`, without the expiry and the metrics that the kernel learns. */
export function canonicalRoutes(text: string): readonly string[] {
  const routes = linesOf(text).map((line) => line.replaceAll(/ (?:expires \d+sec|error -?\d+)/g, '').trim());
  return [...new Set(routes)].toSorted(compareText);
}

/** `sysctl -a`, files of it, or `grep . /proc/sys/…`: `net.ipv4.ip_forward = 1`. Those of the path of Service packets, by name. */
export function canonicalSysctls(text: string): Readonly<Record<string, string>> {
  const found = linesOf(text).flatMap((line): (readonly [string, string])[] => {
    const [, key = '', value = ''] = /^(?:sysctl )?([a-z0-9_./-]+) ?[=:] ?(.*)$/i.exec(line.trim()) ?? [];
    const name = key.startsWith('/proc/sys/') ? key.slice('/proc/sys/'.length).replaceAll('/', '.') : key;
    return isOfServicePath(name) ? [[name, value.trim()]] : [];
  });
  return Object.fromEntries(found.toSorted(([a], [b]) => compareText(a, b)));
}

/** Whether a sysctl decides what becomes of a packet of a Service. Those of single interfaces come and go with pods. */
const isOfServicePath = (name: string): boolean =>
  /^net\.(?:ipv[46]\.(?:ip_forward|vs\.\w+|conf\.(?:all|default)\.(?:forwarding|rp_filter|route_localnet|arp_ignore|arp_announce))|bridge\.bridge-nf-call-ip6?tables|netfilter\.nf_conntrack_(?:max|buckets|tcp_be_liberal|\w+_timeout(?:_\w+)?))$/.test(
    name,
  );

const isFilled = (line: string): boolean => line.trim() !== '';
const linesOf = (text: string): readonly string[] => text.split('\n').filter(isFilled);
