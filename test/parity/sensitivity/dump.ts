import { type Observation, observationOf, textsOf } from '@sluice/bundle';
import { nodeName } from '../clusters.ts';
import type { WiredNode } from '../wire.ts';

/** What a kernel holds for Services, as texts that the tools print and load again. */
export interface Dump {
  readonly store: 'nft' | 'legacy';
  /** `iptables-save` with all tables, so that a load leaves nothing of the one before. */
  readonly ipv4: string;
  readonly ipv6: string;
  /** `nft list table` of each table of a Service proxy. */
  readonly tables: string;
  /** By path below `/proc/sys`. */
  readonly sysctls: Readonly<Record<string, string>>;
}

/** A table of this name is a foreign one, which only a mutant has. */
export const foreignTable = 'inet other';

const ownTables = ['ip kube-proxy', 'ip6 kube-proxy', 'inet sluice'];

const chainsOf: Readonly<Record<string, readonly string[]>> = {
  raw: ['PREROUTING', 'OUTPUT'],
  mangle: ['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING'],
  nat: ['PREROUTING', 'INPUT', 'OUTPUT', 'POSTROUTING'],
  filter: ['INPUT', 'FORWARD', 'OUTPUT'],
};

/** Sysctls that decide about packets of Services, and that a proxy sets. */
const sysctls = [
  'net/ipv4/conf/all/route_localnet',
  'net/ipv4/ip_forward',
  'net/ipv6/conf/all/forwarding',
  'net/netfilter/nf_conntrack_tcp_be_liberal',
];

/** Reads what a node has. */
export async function dumpOf({ host }: WiredNode, store: Dump['store'] = 'nft'): Promise<Dump> {
  const read = (...argv: readonly string[]): Promise<string> => host.run(argv);
  const tables: string[] = [];
  for (const name of ownTables) {
    const listed = await host.exec(['/usr/sbin/nft', '-s', 'list', 'table', ...name.split(' ')]);
    if (listed.exitCode === 0) tables.push(listed.stdout);
  }
  const values: [string, string][] = [];
  for (const path of sysctls) values.push([path, (await read('/bin/cat', `/proc/sys/${path}`)).trim()]);
  return {
    store,
    ipv4: whole(await read('/usr/sbin/iptables-nft-save')),
    ipv6: whole(await read('/usr/sbin/ip6tables-nft-save')),
    tables: tables.join('\n'),
    sysctls: Object.fromEntries(values),
  };
}

/** Without comments and counters, and with every table. */
function whole(saved: string): string {
  const lines = saved
    .split('\n')
    .filter((line) => !line.startsWith('#'))
    .map((line) => line.replace(/ \[\d+:\d+\]$/, ''));
  const missing = Object.entries(chainsOf).filter(([table]) => !lines.includes(`*${table}`));
  const added = missing.flatMap(([table, chains]) => [
    `*${table}`,
    ...chains.map((chain) => `:${chain} ACCEPT`),
    'COMMIT',
  ]);
  return [...lines, ...added].filter((line) => line !== '').join('\n');
}

/** Puts a dump in the place of what a node has, without its connections and remembered clients. @returns why the kernel refuses it */
export async function loadDump({ host }: WiredNode, dump: Dump): Promise<string | undefined> {
  const { store, ipv4, ipv6, tables } = dump;
  const gone = [...ownTables, foreignTable].map((name) => `table ${name} {}\ndelete table ${name}`);
  const script = [
    ...Object.entries(dump.sysctls).map(([path, value]) => `echo ${value} >/proc/sys/${path}`),
    fed(`/usr/sbin/iptables-${store}-restore`, ipv4),
    fed(`/usr/sbin/ip6tables-${store}-restore`, ipv6),
    fed('/usr/sbin/nft -f -', [...gone, tables].join('\n')),
    'for list in /proc/net/xt_recent/*; do [ ! -e "$list" ] || echo / >"$list"; done',
    'conntrack -F -f ipv4 2>&- >&-; conntrack -F -f ipv6 2>&- >&-',
  ];
  const { exitCode, stderr } = await host.exec(['/bin/sh', '-e'], { input: script.join('\n') });
  return exitCode === 0 ? undefined : stderr.trim();
}

const fed = (command: string, text: string): string => `${command} <<'END-OF-TEXT'\n${text}\nEND-OF-TEXT`;

/** Files of `sluiced observe --from DIR`, by the commands that write them. */
const files = (store: Dump['store']): readonly (readonly [string, string])[] => [
  ['iptables-nft-save.txt', store === 'nft' ? 'iptables-nft-save' : 'true'],
  ['ip6tables-nft-save.txt', store === 'nft' ? 'ip6tables-nft-save' : 'true'],
  ['iptables-legacy-save.txt', store === 'nft' ? 'true' : 'iptables-legacy-save'],
  ['ip6tables-legacy-save.txt', store === 'nft' ? 'true' : 'ip6tables-legacy-save'],
  ['ipset.txt', 'true'],
  ['ipvsadm.txt', 'true'],
  ['ip-addr.json', 'ip -json addr show'],
  [
    'nft.json',
    'for table in "ip kube-proxy" "ip6 kube-proxy" "inet sluice" "inet other"; do nft -j list table $table 2>&- || true; done',
  ],
  ['ip-route.txt', 'ip route show table all; ip -6 route show table all'],
  [
    'sysctl.txt',
    'grep -s . /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv4/conf/all/* /proc/sys/net/ipv4/conf/default/route_localnet /proc/sys/net/ipv6/conf/all/forwarding /proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal || true',
  ],
];

/** What `sluiced observe` writes of the node. */
export async function observe({ host }: WiredNode, store: Dump['store']): Promise<Observation> {
  const all = files(store);
  const script = all.map(([name, command]) => `echo '@@ ${name}'\n${command}`).join('\n');
  const printed = await host.run(['/bin/sh', '-e'], { input: script });
  const texts = new Map(
    `\n${printed}`
      .split('\n@@ ')
      .slice(1)
      .map((part): [string, string] => {
        const [name = '', ...lines] = part.split('\n');
        return [name, lines.length === 0 ? '' : `${lines.join('\n')}\n`];
      }),
  );
  texts.set('nft.json', joined(texts.get('nft.json') ?? ''));
  texts.set(
    'sysctl.txt',
    (texts.get('sysctl.txt') ?? '').replaceAll(
      /^\/proc\/sys\/([^:]+):/gm,
      (_all, path: string) => `${path.replaceAll('/', '.')} = `,
    ),
  );
  return observationOf({ node: nodeName, tools: {} }, textsOf(texts));
}

/** One listing out of one for each table. */
function joined(listings: string): string {
  const objects = listings
    .split('\n')
    .filter((line) => line !== '')
    .flatMap((line) => (JSON.parse(line) as { readonly nftables: readonly object[] }).nftables);
  return JSON.stringify({ nftables: [{ metainfo: {} }, ...objects] });
}
