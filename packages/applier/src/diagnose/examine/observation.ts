import { existsSync } from 'node:fs';
import { get } from 'node:http';
import {
  ConnectionCounter,
  type ConnectionSummary,
  isOfIptables,
  type Observation,
  observationLimits,
  observationOf,
  type ObservedIdentity,
  type ToolTexts,
} from '@sluice/bundle';
import type { Run } from '../../kernel/command.ts';
import { readText } from '../../kernel/open-file.ts';
import { findTool } from '../../kernel/tools.ts';
import { messageOf } from '../../message.ts';
import { entriesOf } from './network.ts';

/** The text of a part, or why it could not be read. */
type PartText = { readonly text: string } | { readonly why: string };

/**
 * Reads the Service data plane of this machine. Nothing is changed, and no kernel module is loaded: what has no module is empty.
 * @param run starts tools
 */
export async function readObservation(
  identity: Omit<ObservedIdentity, 'tools' | 'bootId' | 'connections'>,
  run: Run,
): Promise<Observation> {
  const ask = (tool: string, ...args: readonly string[]): Promise<PartText> => textOf(tool, args, run);
  const texts: ToolTexts = {
    'rules-nft-ipv4': await ask('iptables-nft-save'),
    'rules-nft-ipv6': await ask('ip6tables-nft-save'),
    'rules-legacy-ipv4': await legacyRules('ip_tables_names', 'iptables-legacy-save', run),
    'rules-legacy-ipv6': await legacyRules('ip6_tables_names', 'ip6tables-legacy-save', run),
    sets: existsSync('/sys/module/ip_set') ? await ask('ipset', 'save') : { text: '' },
    servers: existsSync('/proc/self/net/ip_vs') ? await ask('ipvsadm', '-S', '-n') : { text: '' },
    addresses: await ask('ip', '-json', 'addr', 'show'),
    'nft-tables': await nftTables(run),
    routes: joined(
      await ask('ip', 'route', 'show', 'table', 'all'),
      await ask('ip', '-6', 'route', 'show', 'table', 'all'),
    ),
    sysctls: { text: sysctls() },
  };
  const bootId = readText('/proc/sys/kernel/random/boot_id')?.trim();
  return observationOf(
    { ...identity, ...(bootId === undefined ? {} : { bootId }), tools: await versionsOf(run) },
    texts,
  );
}

/**
 * Adds the connections that are tracked now. The digest does not have them, so only files for operators do.
 * @param run starts conntrack, which prints a line for each connection; none is kept
 */
export async function withConnections(seen: Observation, run: Run): Promise<Observation> {
  const connections = await trackedConnections(run);
  return 'why' in connections
    ? { ...seen, missing: [...seen.missing, { part: 'connections', why: connections.why }] }
    : { ...seen, connections };
}

async function trackedConnections(run: Run): Promise<ConnectionSummary | { readonly why: string }> {
  const file = findTool('conntrack');
  if (file === undefined) return { why: 'conntrack is not installed' };
  const counter = new ConnectionCounter();
  for (const family of ['ipv4', 'ipv6']) {
    const ran = await run({ file, args: ['-L', '-f', family], timeoutMs, onOutput: (part) => counter.take(part) });
    if (ran.exitCode !== 0) return { why: `conntrack -L -f ${family}: ${ran.why}` };
  }
  return counter.end();
}

async function textOf(tool: string, args: readonly string[], run: Run): Promise<PartText> {
  const file = findTool(tool);
  if (file === undefined) return { why: `${tool} is not installed` };
  const ran = await run({ file, args, timeoutMs });
  return ran.exitCode === 0 ? { text: ran.stdout } : { why: `${tool} ${args.join(' ')}: ${ran.why}` };
}

/** At 10,000 Services a store takes seconds to read. */
const timeoutMs = 120_000;

const joined = (one: PartText, other: PartText): PartText =>
  'why' in one ? one : 'why' in other ? other : { text: `${one.text}\n${other.text}` };

/** Without a table of legacy iptables its save tool would load the modules that make them. */
async function legacyRules(list: string, tool: string, run: Run): Promise<PartText> {
  const names = readText(`/proc/self/net/${list}`);
  return names === undefined || names.trim() === '' ? { text: '' } : textOf(tool, [], run);
}

interface ListedTable {
  readonly table?: { readonly family: string; readonly name: string };
}

/** Table by table, without those of iptables, whose 230,000 rules its save tools print in a tenth of the bytes. */
async function nftTables(run: Run): Promise<PartText> {
  const listed = await textOf('nft', ['-j', 'list', 'tables'], run);
  if ('why' in listed) return listed;
  try {
    const { nftables: names = [] } = JSON.parse(listed.text || '{}') as { nftables?: readonly ListedTable[] };
    const tables = names.flatMap(({ table }) => (table && !isOfIptables(table.family, table.name) ? [table] : []));
    if (tables.length > observationLimits.nftTablesMax) return { why: `there are ${tables.length} tables of nftables` };
    const objects: unknown[] = [];
    for (const { family, name } of tables) {
      if (!/^[a-z0-9]+$/.test(family) || !/^[A-Za-z0-9_./\\-]+$/.test(name))
        return { why: `the name of table ${family} ${JSON.stringify(name)} cannot be an argument` };
      const one = await textOf('nft', ['-j', 'list', 'table', family, name], run);
      if ('why' in one) return one;
      for (const object of (JSON.parse(one.text) as { nftables: readonly unknown[] }).nftables) objects.push(object);
    }
    return { text: JSON.stringify({ nftables: objects }) };
  } catch (error) {
    return { why: `nft -j list: ${messageOf(error)}` };
  }
}

/** Folders of `/proc/sys` whose files decide about packets of Services; `canonicalSysctls` chooses among them. */
const folders = [
  'net/ipv4',
  'net/ipv4/vs',
  'net/netfilter',
  'net/bridge',
  'net/ipv4/conf/all',
  'net/ipv4/conf/default',
  'net/ipv6/conf/all',
  'net/ipv6/conf/default',
];

function sysctls(): string {
  const lines = folders.flatMap((folder) =>
    entriesOf(`/proc/sys/${folder}`).map((name) => {
      const value = readText(`/proc/sys/${folder}/${name}`);
      return value === undefined
        ? ''
        : `${`${folder}/${name}`.replaceAll('/', '.')} = ${value.trim().replaceAll(/\s+/g, ' ')}`;
    }),
  );
  return lines.join('\n');
}

const versioned = ['iptables-nft-save', 'iptables-legacy-save', 'nft', 'ipset', 'ipvsadm', 'ip'] as const;

async function versionsOf(run: Run): Promise<Readonly<Record<string, string>>> {
  const found: Record<string, string> = {};
  for (const tool of versioned) {
    const printed = await textOf(tool, [tool === 'ip' ? '-V' : '--version'], run);
    const [first = ''] = 'text' in printed ? printed.text.split('\n') : [];
    if (first !== '') found[tool] = first.slice(0, 200);
  }
  const proxy = await kubeProxyVersion();
  return { ...found, ...(proxy === undefined ? {} : { 'kube-proxy': proxy }) };
}

/** Where kube-proxy answers scrapers by default (`metricsBindAddress`). */
const scraperUrl = 'http://127.0.0.1:10249/metrics';

/** Its metrics are some hundred kilobytes, the one with the version among the first. */
const bytesMax = 4 * 1024 * 1024;
const waitMs = 1_000;

/**
 * The version of the kube-proxy that runs on this node, `v1.31.4`, as its port for scrapers says.
 * @returns undefined: no kube-proxy answers there within a second
 */
export function kubeProxyVersion(url: string = scraperUrl): Promise<string | undefined> {
  const { promise, resolve } = Promise.withResolvers<string | undefined>();
  let text = '';
  const asked = get(url, { agent: false, signal: AbortSignal.timeout(waitMs) }, (response) => {
    response.setEncoding('latin1');
    response.on('data', (part: string) => {
      text += part;
      const version = versionIn(text);
      if (version === undefined && text.length <= bytesMax) return;
      resolve(version);
      asked.destroy();
    });
    response.on('end', () => resolve(undefined)).on('error', () => resolve(undefined));
  });
  asked.on('error', () => resolve(undefined));
  return promise;
}

/** @param text of `/metrics`: `kubernetes_build_info{…,git_version="v1.31.4",…} 1` */
const versionIn = (text: string): string | undefined =>
  /^kubernetes_build_info\{[^}\n]*\bgit_version="(v1\.\d{1,3}\.[-+.\w]{1,40})"/m.exec(text)?.[1];
