// Loads many Services in mode nftables, once, into a network namespace of its own, started by nftables.ts with the number of Services and
// the layout: `ours`, `counted` with counters of endpoints, or `theirs`, that of kube-proxy 1.37 as text; or, with the program `open`, opens connections. Prints one JSON line.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { frontendElements, listChain, type NftState, printElements, printNft, readFrontend } from '@sluice/netfilter';
import { frontendLines } from '../../packages/netfilter/src/nftables/frontend.ts';
import { mustBeInNamespace } from './in-namespace.ts';
import { median } from './measure.ts';

mustBeInNamespace();
const services = Number(process.argv[2] ?? 1_000);
const layout = process.argv[3] === 'theirs' ? 'theirs' : 'ours';
const isCounted = process.argv[3] === 'counted';
const open = process.argv[4];
const protocol = open === undefined ? 'tcp' : 'udp';
const endpoints = 5;
const changes = 15;

const address = (first: number, n: number): string => `10.${first + (n >> 16)}.${(n >> 8) & 255}.${n & 255}`;
const vip = (service: number): string => address(96, service + 256);
const pod = (service: number, at: number): string => address(128, service * endpoints + at);

/** The texts that load the layout, replace an endpoint by a new one, and add one. */
interface LayoutTexts {
  readonly load: string;
  readonly replace: (service: number, turn: number) => string;
  readonly add: (service: number) => string;
}

/** The pods of the node: the kubelet runs 110 of them at most, unless it is told otherwise. */
const onNode = new Set(Array.from({ length: Math.min(services, 110) }, (_, service) => pod(service, 0)));

function ours(): LayoutTexts {
  const key = (service: number): string => `${vip(service)} . ${protocol} . 80`;
  const linesOf = (list: readonly string[]): readonly string[] =>
    frontendLines({
      isClusterIP: true,
      ranges: [],
      endpoints: list.map((one) => `${one} . 8080`),
      local: [],
      here: list.filter((one) => onNode.has(one)),
    });
  const pods = (service: number): readonly string[] => Array.from({ length: endpoints }, (_, at) => pod(service, at));
  const frontends = new Map(
    Array.from({ length: services }, (_, service) => [key(service), linesOf(pods(service))] as const),
  );
  const settings = [
    `table 4 address${isCounted ? ' counters' : ''}`,
    'pods 10.128.0.0/9',
    'keep 10.128.0.0/9',
    'node 192.0.2.11',
    'cidr 10.96.0.0/13',
  ];
  const state: NftState = { settings, frontends };
  const elementsOf = (service: number, list: readonly string[]): ReturnType<typeof frontendElements> =>
    frontendElements(readFrontend(key(service), linesOf(list)), 'a');
  const changed = (service: number, from: readonly string[], to: readonly string[]): string => {
    const [before, after] = [elementsOf(service, from), elementsOf(service, to)];
    const all = ({ serving, lists, shared }: typeof before): typeof before.lists => [...serving, ...lists, ...shared];
    const print = ({ set, key: one, value }: { set: string; key: string; value: string }): string =>
      `${set} ${one} ${value}`;
    const [had, has] = [new Set(all(before).map(print)), new Set(all(after).map(print))];
    // Shared elements stay, as in a change by sluiced.
    const gone = [...before.serving, ...before.lists].filter((one) => !has.has(print(one)));
    const come = all(after).filter((one) => !had.has(print(one)));
    return printElements('delete', gone) + printElements('add', come);
  };
  const others = (service: number, turn: number): readonly string[] => [
    ...pods(service).slice(1),
    turn === 0 ? pod(service, 0) : address(240, turn),
  ];
  return {
    load:
      printNft(state) +
      listChain(`n${endpoints + 1}`)
        .map((command) => `${command}\n`)
        .join(''),
    replace: (service, turn) => changed(service, others(service, turn), others(service, turn + 1)),
    add: (service) => changed(service, pods(service), [...pods(service), address(241, service)]),
  };
}

/** The layout of kube-proxy 1.37 (`pkg/proxy/nftables/proxier.go`), for ClusterIPs of IPv4: both tables, all base chains. */
function theirs(): LayoutTexts {
  const name = (service: number): string =>
    `service-AAAA${service.toString(36).toUpperCase()}-shop/s${service}/tcp/http`;
  const rule = (service: number, list: readonly string[]): string =>
    `meta l4proto ${protocol} dnat ip to numgen random mod ${list.length} map { ${list.map((one, at) => `${at} : ${one} . 8080`).join(', ')} }`;
  const pods = (service: number, first = pod(service, 0)): readonly string[] => [
    first,
    ...Array.from({ length: endpoints - 1 }, (_, at) => pod(service, at + 1)),
  ];
  const all = Array.from({ length: services }, (_, service) => service);
  const table = (family: 'ip' | 'ip6'): string => {
    const type = family === 'ip' ? 'ipv4_addr' : 'ipv6_addr';
    const key = `type ${type} . inet_proto . inet_service`;
    const own = family === 'ip' ? all : [];
    const elements = (list: readonly string[]): string =>
      list.length === 0 ? '' : `elements = { ${list.join(', ')} };`;
    return `table ${family} kube-proxy {
      set hairpin-connections { type ${type} . ${type} . inet_proto . inet_service; }
      set cluster-ips { type ${type}; ${elements(own.map(vip))} }
      set nodeport-ips { type ${type}; }
      map no-endpoint-services { ${key} : verdict; }
      map no-endpoint-nodeports { type inet_proto . inet_service : verdict; }
      map firewall-ips { ${key} : verdict; }
      map service-nodeports { type inet_proto . inet_service : verdict; }
      chain reject-chain { reject; }
      chain nodeport-endpoints-check { ${family} daddr @nodeport-ips meta l4proto . th dport vmap @no-endpoint-nodeports; }
      chain service-endpoints-check { ${family} daddr . meta l4proto . th dport vmap @no-endpoint-services; }
      chain firewall-check { ${family} daddr . meta l4proto . th dport vmap @firewall-ips; }
      chain cluster-ips-check { ${family} daddr @cluster-ips reject; }
      chain masquerading {
        meta mark & 0x4000 != 0 meta mark set meta mark ^ 0x4000 masquerade fully-random
        ct status dnat ${family} saddr . ${family} daddr . meta l4proto . th dport @hairpin-connections masquerade fully-random
      }
      ${own.map((one) => `chain ${name(one)} { ip daddr ${vip(one)} ip saddr != 10.128.0.0/9 meta mark set meta mark | 0x4000; ${rule(one, pods(one))}; }`).join('\n')}
      map service-ips { ${key} : verdict; ${elements(own.map((one) => `${vip(one)} . ${protocol} . 80 : goto ${name(one)}`))} }
      chain services {
        ${family} daddr . meta l4proto . th dport vmap @service-ips
        ${family} daddr @nodeport-ips meta l4proto . th dport vmap @service-nodeports
      }
      chain filter-prerouting-pre-dnat { type filter hook prerouting priority -110; ct state new jump firewall-check; }
      chain filter-output-pre-dnat { type filter hook output priority -110; ct state new jump firewall-check; }
      chain filter-input { type filter hook input priority 0; ct state new jump nodeport-endpoints-check; ct state new jump service-endpoints-check; }
      chain filter-forward { type filter hook forward priority 0; ct state new jump service-endpoints-check; ct state new jump cluster-ips-check; }
      chain filter-output { type filter hook output priority 0; ct state new jump service-endpoints-check; ct state new jump cluster-ips-check; }
      chain nat-prerouting { type nat hook prerouting priority -100; jump services; }
      chain nat-output { type nat hook output priority -100; jump services; }
      chain nat-postrouting { type nat hook postrouting priority 100; jump masquerading; }
    }\n`;
  };
  const rewrite = (service: number, list: readonly string[]): string =>
    `flush chain ip kube-proxy ${name(service)}
     add rule ip kube-proxy ${name(service)} ip daddr ${vip(service)} ip saddr != 10.128.0.0/9 meta mark set meta mark | 0x4000
     add rule ip kube-proxy ${name(service)} ${rule(service, list)}\n`;
  return {
    load: table('ip') + table('ip6'),
    replace: (service, turn) => rewrite(service, pods(service, address(240, turn + 1))),
    add: (service) => rewrite(service, [...pods(service), address(241, service)]),
  };
}

/** One `nft -f -`: one transaction, in milliseconds. */
function nft(input: string): number {
  const started = performance.now();
  execFileSync('/usr/sbin/nft', ['-f', '-'], { input, maxBuffer: 1 << 26 });
  return performance.now() - started;
}

/** Memory of the kernel's own, in bytes: without files and processes. */
function kernelBytes(): number {
  const text = readFileSync('/proc/meminfo', 'utf8');
  const of = (name: string): number => Number(new RegExp(`^${name}: +(\\d+) kB`, 'm').exec(text)?.[1] ?? 0);
  return 1024 * (of('SUnreclaim') + of('VmallocUsed') + of('Percpu'));
}

/** A listing of the endpoints, which reads their counters, in milliseconds. */
function listTime(): number {
  if (layout === 'theirs') return Number.NaN;
  const started = performance.now();
  execFileSync('/usr/sbin/nft', ['-n', 'list', 'map', 'inet', 'sluice', 'tcp4'], { maxBuffer: 1 << 28 });
  return performance.now() - started;
}

/** Costs of the layout and its changes. */
function costs(texts: LayoutTexts): object {
  const before = kernelBytes();
  const loadMs = nft(texts.load);
  const bytes = kernelBytes() - before;
  const middle = services >> 1;
  const turns = Array.from({ length: changes }, (_, turn) => turn);
  const reads = turns.slice(0, 3).map(() => listTime());
  const replace = turns.map((turn) => nft(texts.replace(middle, turn + (layout === 'ours' ? 1 : 0))));
  const add = turns.map((turn) => nft(texts.add((middle + turn + 1) % services)));
  return {
    loadMs,
    replaceMs: median(replace),
    addMs: median(add),
    bytesPerService: bytes / services,
    readMs: median(reads),
  };
}

/** A device behind which every packet is dropped: the machine there has another address. */
const device = `
  ip link add v0 type veth peer name v1
  ip addr add 192.0.2.11/24 dev v0
  ip link set v0 up
  ip link set v1 up
  ip neigh replace 192.0.2.2 lladdr 02:00:00:00:00:01 dev v0 nud permanent
  ip route add default via 192.0.2.2
`;

/** Microseconds to open a connection from this node: the best of some runs. */
function opening(texts: LayoutTexts, program: string): object {
  execFileSync('/bin/sh', ['-ec', device]);
  nft(texts.load);
  const input = Array.from({ length: services }, (_, service) => `${vip(service)}:80\n`).join('');
  const runs = Array.from({ length: 5 }, () => Number(execFileSync(program, ['time', '6000'], { input })));
  return { openUs: Math.min(...runs) };
}

const texts = layout === 'ours' ? ours() : theirs();
process.stdout.write(`${JSON.stringify(open === undefined ? costs(texts) : opening(texts, open))}\n`);
