import { readdirSync, readFileSync } from 'node:fs';
import { canonicalAddress, families } from '@sluice/netfilter';
import { printQuestion } from '../doctor/checks/network.ts';
import type {
  CounterFacts,
  InterfaceFacts,
  ListenerFacts,
  NeighbourFacts,
  PodFacts,
  RouteFacts,
} from '../doctor/facts.ts';
import type { Run } from '../../kernel/command.ts';
import { readText } from '../../kernel/open-file.ts';
import { findTool } from '../../kernel/tools.ts';
import { bounds } from './bounds.ts';
import { printedBy } from './printed.ts';

/** A question to `ip route get`. */
type RouteQuestion = Pick<RouteFacts, 'to' | 'from' | 'iif'>;

async function ipJson(args: readonly string[], run: Run): Promise<unknown> {
  return JSON.parse((await printedBy('ip', ['-j', ...args], run)).trim() || '[]');
}

interface ListedInterface {
  readonly ifname: string;
  readonly mtu: number;
  readonly flags: readonly string[];
  readonly operstate: string;
  readonly master?: string;
  readonly linkinfo?: {
    readonly info_kind?: string;
    readonly info_slave_kind?: string;
    readonly info_slave_data?: { readonly hairpin?: boolean };
  };
  readonly addr_info: readonly { readonly local?: string }[];
}

/** @throws Error when ip fails */
export async function readInterfaces(run: Run): Promise<readonly InterfaceFacts[]> {
  const answered = (await ipJson(['-d', 'address', 'show'], run)) as readonly ListedInterface[];
  return answered
    .slice(0, bounds.interfaces)
    .map(({ ifname, mtu, flags, operstate, master, linkinfo, addr_info: addresses }) => ({
      name: ifname,
      // A veth whose peer is down has no carrier.
      isUp: flags.includes('UP') && operstate !== 'DOWN' && operstate !== 'LOWERLAYERDOWN',
      mtu,
      kind: linkinfo?.info_kind ?? '',
      addresses: addresses.flatMap(({ local }) => local ?? []),
      ...(master !== undefined && linkinfo?.info_slave_kind === 'bridge'
        ? { bridge: { name: master, isHairpin: linkinfo.info_slave_data?.hairpin === true } }
        : {}),
    }));
}

interface ListedRoute {
  readonly type?: string;
  readonly dev?: string;
  readonly gateway?: string;
}

const noRoutes = new Set(['blackhole', 'unreachable', 'prohibit', 'throw']);

/** A name that `ip -batch` reads as one word. */
const plainName = /^[A-Za-z0-9_.:@+-]+$/;

/**
 * Asks for routes, with one process for all: a node with many rules starts one in 10 ms.
 * @returns a fact for each question, in their order; interfaces whose names have other characters than usual are not asked about
 * @throws Error when ip cannot be started
 */
export async function readRoutes(questions: readonly RouteQuestion[], run: Run): Promise<readonly RouteFacts[]> {
  const file = findTool('ip');
  if (file === undefined) throw new Error('ip is not installed');
  const asked = questions.filter(({ iif }) => iif === undefined || plainName.test(iif));
  if (asked.length === 0) return [];
  const input = asked.map((question) => `route get ${printQuestion(question)}\n`).join('');
  const args = ['-j', '-force', '-batch', '-'];
  const ran = await run({ file, args, input, timeoutMs: bounds.toolMs, outputBytesMax: bounds.toolBytes });
  const refused = refusedLines(ran.stderr);
  // An answer a line, and exit code 1 where a question had none.
  const answers = ran.stdout.split('\n').filter((line) => line.startsWith('['));
  if (answers.length + refused.size !== asked.length) throw new Error(ran.why === '' ? 'ip left routes out' : ran.why);
  let at = 0;
  return asked.map((question, index): RouteFacts => {
    const why = refused.get(index + 1);
    if (why !== undefined) return { ...question, isLocal: false, why };
    const [route] = JSON.parse(answers[at++] ?? '[]') as readonly ListedRoute[];
    return routeOf(question, route);
  });
}

/** `Command failed -:2` follows what went wrong in line 2. */
function refusedLines(stderr: string): ReadonlyMap<number, string> {
  const found = new Map<number, string>();
  let said = '';
  for (const line of stderr.split('\n')) {
    const number = /^Command failed -:(\d+)$/.exec(line)?.[1];
    if (number === undefined) said = line;
    else found.set(Number(number), said);
  }
  return found;
}

function routeOf(question: RouteQuestion, route: ListedRoute | undefined): RouteFacts {
  if (route?.dev === undefined || noRoutes.has(route.type ?? ''))
    return { ...question, isLocal: false, why: route?.type ?? 'no route' };
  const via = route.gateway === undefined ? {} : { via: route.gateway };
  return { ...question, dev: route.dev, ...via, isLocal: route.type === 'local' };
}

/**
 * One pod of each family: an address that a route without a gateway leads to. A node has the route of each pod (Calico, Cilium), or one of
 * all its pods (bridges).
 * @param own addresses of the node
 * @throws Error when ip fails
 */
export async function readPods(own: ReadonlySet<string>, run: Run): Promise<readonly PodFacts[]> {
  const found: PodFacts[] = [];
  for (const version of ['-4', '-6'] as const) {
    const routes = (await ipJson([version, 'route', 'show', 'table', 'main'], run)) as readonly (ListedRoute & {
      readonly dst: string;
    })[];
    const pod = routes.flatMap(({ dst, gateway, dev, type }): PodFacts[] => {
      const address = canonicalAddress(dst);
      const isPod =
        address !== undefined &&
        gateway === undefined &&
        dev !== undefined &&
        dev !== 'lo' &&
        (type ?? 'unicast') === 'unicast';
      return isPod && !own.has(address) && !/^(?:fe80|169\.254\.)/.test(address) ? [{ address, dev }] : [];
    });
    const [first] = pod;
    if (first) found.push(first);
  }
  return found;
}

/** @throws Error when ip fails */
export async function readFailedNeighbours(run: Run): Promise<readonly string[]> {
  const answered = (await ipJson(['neigh', 'show', 'nud', 'failed'], run)) as readonly { readonly dst: string }[];
  return answered.map(({ dst }) => dst);
}

/** Sysctls of networking, of all interfaces. */
const sysctlNames = [
  'net/ipv4/ip_forward',
  'net/ipv4/ip_local_port_range',
  'net/ipv4/ip_local_reserved_ports',
  'net/ipv4/conf/all/rp_filter',
  'net/ipv6/conf/all/forwarding',
  'net/ipv6/conf/all/disable_ipv6',
  'net/bridge/bridge-nf-call-iptables',
  'net/bridge/bridge-nf-call-ip6tables',
  'net/netfilter/nf_conntrack_tcp_timeout_established',
  'net/netfilter/nf_conntrack_udp_timeout',
  'net/netfilter/nf_conntrack_udp_timeout_stream',
  'net/netfilter/nf_conntrack_tcp_timeout_syn_recv',
] as const;

export function readSysctls(): ReadonlyMap<string, string> {
  const interfaces = entriesOf('/proc/sys/net/ipv4/conf').slice(0, bounds.interfaces);
  const perInterface = interfaces.flatMap((name) => [
    `net/ipv4/conf/${name}/forwarding`,
    `net/ipv4/conf/${name}/rp_filter`,
    `net/ipv6/conf/${name}/forwarding`,
  ]);
  const values = new Map<string, string>();
  for (const key of [...sysctlNames, ...perInterface]) {
    const value = readText(`/proc/sys/${key}`);
    if (value !== undefined) values.set(key, value.trim());
  }
  return values;
}

export function entriesOf(directory: string): readonly string[] {
  try {
    return readdirSync(directory);
  } catch {
    return [];
  }
}

/** `/proc/net/snmp` and `/proc/net/netstat`: a line of names, then a line of values. */
function pairsOf(text: string): ReadonlyMap<string, number> {
  const found = new Map<string, number>();
  const lines = text.split('\n');
  for (let at = 0; at + 1 < lines.length; at += 2) {
    const [names = [], values = []] = [lines[at]?.split(' '), lines[at + 1]?.split(' ')];
    for (const [index, name] of names.entries())
      if (index > 0) found.set(`${names[0] ?? ''}${name}`, Number(values[index]));
  }
  return found;
}

/** Files of statistics per processor: a line of names, then hexadecimal values per processor. */
function sumOf(text: string, name: string): number {
  const [names = '', ...rows] = text.trim().split('\n');
  const at = names.trim().split(/\s+/).indexOf(name);
  return at < 0 ? 0 : rows.reduce((sum, row) => sum + Number.parseInt(row.trim().split(/\s+/)[at] ?? '0', 16), 0);
}

/** @throws Error when the statistics cannot be read */
export function readCounters(): CounterFacts {
  const ip = pairsOf(readFileSync('/proc/self/net/snmp', 'utf8'));
  const more = pairsOf(readFileSync('/proc/self/net/netstat', 'utf8'));
  const six = new Map(
    (readText('/proc/self/net/snmp6') ?? '').split('\n').map((line) => line.split(/\s+/) as [string, string]),
  );
  const conntrack = readText('/proc/self/net/stat/nf_conntrack') ?? '';
  return {
    received: ip.get('Ip:InReceives') ?? 0,
    reversePathFilter: more.get('TcpExt:IPReversePathFilter') ?? more.get('IpExt:IPReversePathFilter') ?? 0,
    fragmentsFailed: (ip.get('Ip:FragFails') ?? 0) + Number(six.get('Ip6FragFails') ?? 0),
    packetsTooBig: Number(six.get('Ip6OutPktTooBigs') ?? six.get('Icmp6OutPktTooBigs') ?? 0),
    insertFailed: sumOf(conntrack, 'insert_failed'),
    dropped: sumOf(conntrack, 'drop'),
    earlyDropped: sumOf(conntrack, 'early_drop'),
  };
}

/** How full the neighbour tables are. Their limits are shown in the first network namespace alone. */
export function readNeighbourTables(): readonly NeighbourFacts[] {
  return families.flatMap((family): NeighbourFacts[] => {
    const table = readText(`/proc/self/net/stat/${family === 'ipv4' ? 'arp' : 'ndisc'}_cache`);
    const max = readText(`/proc/sys/net/${family}/neigh/default/gc_thresh3`);
    if (table === undefined || max === undefined) return [];
    // Each processor's row repeats the number of entries.
    const [names = '', row = ''] = table.split('\n');
    const entries = sumOf(`${names}\n${row}`, 'entries');
    return [{ family, entries, max: Number(max), fulls: sumOf(table, 'table_fulls') }];
  });
}

/** Listening sockets of this network namespace, as `ss` prints them. @throws Error when it fails */
export async function readListeners(run: Run): Promise<readonly ListenerFacts[]> {
  return (await printedBy('ss', ['-Hlntup'], run)).split('\n').flatMap((line): ListenerFacts[] => {
    const [protocol = '', , , , local = '', , users = ''] = line.trim().split(/\s+/);
    if (protocol !== 'tcp' && protocol !== 'udp') return [];
    const at = local.lastIndexOf(':');
    const [, name = 'a program', pid] = /"([^"]*)",pid=(\d+)/.exec(users) ?? [];
    return [
      {
        protocol,
        address: local.slice(0, at),
        port: Number(local.slice(at + 1)),
        program: pid === undefined ? name : `${name} (pid ${pid})`,
      },
    ];
  });
}
