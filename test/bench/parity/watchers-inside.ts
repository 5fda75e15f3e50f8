// The rounds of watchers.ts, as the first process of namespaces of their own. Prints a list of costs as JSON; progress goes to standard error.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { execa } from 'execa';
import type { Host } from '../../netns/cluster-host.ts';
import type { ApiServerPrograms } from '../../parity/binaries.ts';
import { clusterList } from '../data.ts';
import { mustBeInNamespace } from '../in-namespace.ts';
import { cpuSeconds } from '../measure.ts';
import { type Api, openApi } from './api.ts';
import type { ListItem } from './cluster.ts';
import { apiAddress, setUpApiAddress, startNode } from './node.ts';
import type { BenchPrograms } from './programs.ts';
import { type BenchSubject, subjects } from './subjects.ts';

export interface WatchersPlan {
  readonly services: number;
  readonly nodes: number;
  /** Of one endpoint. */
  readonly changes: number;
  readonly programs: BenchPrograms;
  readonly apiServer: ApiServerPrograms;
  readonly dir: string;
}

/** What kube-apiserver and etcd did for all watchers together; bytes are those to the nodes, with headers. */
export interface WatchersCost {
  readonly startCpuMs: number;
  readonly startBytes: number;
  /** Of one change. */
  readonly changeCpuMs: number;
  readonly changeBytes: number;
}

interface Used {
  readonly cpuMs: number;
  readonly bytes: number;
}

const shape = { endpointsPerService: 5 } as const;
/** Nothing more comes: what a watch gets without changes is a bookmark a minute. On a busy machine some watchers start late. */
const quietBytes = 50_000;
const quietSeconds = 45;
const startSecondsMax = 600;

async function main({ services, nodes, changes, programs, apiServer, dir }: WatchersPlan): Promise<void> {
  mustBeInNamespace();
  await setUpApiAddress();
  const items = clusterList({ ...shape, services, nodes }).items as unknown as ListItem[];
  const api = await openApi(apiServer, items, apiAddress);
  const slices = items.filter(({ kind }) => kind === 'EndpointSlice') as unknown as readonly SliceItem[];
  const used = usageOf([apiServer.apiserver, apiServer.etcd]);
  try {
    const costs: WatchersCost[] = [];
    for (const [title, subject] of [
      ['no watcher', undefined],
      ['kube-proxy', subjects['kube-proxy nftables']],
      ['sluice watch --node', subjects["Sluice nftables, a node's own watch"]],
    ] as const) {
      const hosts = subject ? await startNodes(nodes) : [];
      const before = await used();
      const names = items.filter(({ kind }) => kind === 'Node').map(({ metadata }) => metadata.name);
      const daemons = subject ? start(subject, { hosts, names, programs, api, dir }) : [];
      await untilQuiet(used, daemons.length > 0);
      const started = await used();
      for (let turn = 0; turn < changes; turn++) {
        await api.put(moved(slices[(turn * 37) % slices.length] as SliceItem, costs.length * changes + turn));
        await sleep(1_000);
      }
      await sleep(5_000);
      const ended = await used();
      costs.push({
        startCpuMs: started.cpuMs - before.cpuMs,
        startBytes: started.bytes - before.bytes,
        changeCpuMs: (ended.cpuMs - started.cpuMs) / changes,
        changeBytes: (ended.bytes - started.bytes) / changes,
      });
      process.stderr.write(`  ${title}: ${JSON.stringify(costs.at(-1))}\n`);
      await Promise.all(daemons.map((daemon) => daemon.stop()));
      await Promise.all(hosts.map((host) => host.close()));
    }
    process.stdout.write(JSON.stringify(costs));
  } finally {
    await api.close();
  }
}

type SliceItem = ListItem & { readonly endpoints: readonly object[] };
function moved(slice: SliceItem, turn: number): ListItem {
  const [first, ...others] = slice.endpoints;
  const endpoints = [{ ...first, addresses: [`10.251.${turn >> 8}.${turn & 255}`] }, ...others];
  return Object.assign({ ...slice }, { endpoints });
}

async function startNodes(nodes: number): Promise<readonly Host[]> {
  const hosts: Host[] = [];
  for (let n = 0; n < nodes; n++) hosts.push(await startNode(`10.255.1.${n + 1}`));
  return hosts;
}

interface Watchers {
  readonly hosts: readonly Host[];
  readonly names: readonly string[];
  readonly programs: BenchPrograms;
  readonly api: Api;
  readonly dir: string;
}

/** Starts what watches the API server, on each of its nodes. */
const start = (subject: BenchSubject, { hosts, names, programs, api, dir }: Watchers) =>
  hosts.map((host, n) => {
    const own = join(mkdtempSync(join(dir, 'watcher-')), 'programs');
    mkdirSync(own);
    const commands = subject.setUp(programs, api, own, names[n]);
    const watcher = commands.find(({ argv }) => argv[0] !== programs.sluiced);
    return host.start(watcher?.argv ?? [], watcher?.env);
  });

/** @param programs whose processor time counts. @returns reads what they used, and what was sent to the nodes */
function usageOf(programs: readonly string[]): () => Promise<Used> {
  const isOf = (pid: string): boolean => {
    const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8');
    return programs.some((program) => command.startsWith(`${program}\0`));
  };
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name) && isOf(name));
  if (pids.length !== programs.length) throw new Error(`found ${pids.length} of ${programs.length} programs`);
  let gone = 0;
  const last = new Map<string, number>();
  return async () => {
    const { stdout } = await execa('ip', ['-j', '-s', 'link']);
    const links = JSON.parse(stdout) as readonly { ifname: string; stats64: { tx: { bytes: number } } }[];
    const now = new Map(links.map(({ ifname, stats64 }) => [ifname, stats64.tx.bytes]));
    for (const [name, bytes] of last) if (!now.has(name)) gone += bytes;
    last.clear();
    for (const [name, bytes] of now) if (/^node\d+$/.test(name)) last.set(name, bytes);
    const bytes = [...last.values()].reduce((sum, one) => sum + one, gone);
    return { cpuMs: pids.reduce((sum, pid) => sum + cpuSeconds(Number(pid)) * 1000, 0), bytes };
  };
}

/** @param isStarting something comes first */
async function untilQuiet(used: () => Promise<Used>, isStarting: boolean): Promise<void> {
  const begun = (await used()).bytes;
  for (let seconds = 0, quiet = 0; seconds < startSecondsMax; seconds++) {
    const { bytes } = await used();
    await sleep(1_000);
    const now = (await used()).bytes;
    const hasBegun = !isStarting || now - begun > quietBytes * 10;
    quiet = hasBegun && now - bytes < quietBytes ? quiet + 1 : 0;
    if (quiet >= quietSeconds) return;
  }
  throw new Error(`the watchers were not quiet after ${startSecondsMax} s`);
}

if (import.meta.main) {
  await main(JSON.parse(process.argv[2] ?? '') as WatchersPlan);
  process.exit(0);
}
