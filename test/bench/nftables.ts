// Mode nftables in the kernel, without programs: the table of Sluice beside the layout of kube-proxy 1.37, both as text by one nft.
import { execFileSync } from 'node:child_process';
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { newerNft } from '../nft/newer.ts';
import { build } from '../parity/build.ts';
import { median, ms, ratio, report } from './measure.ts';
import { nftablesTraffic, openProgram } from './nftables-traffic.ts';

/** The output of nftables-inside.ts. */
interface LayoutTimes {
  readonly loadMs: number;
  readonly replaceMs: number;
  readonly addMs: number;
  readonly bytesPerService: number;
  /** A listing of all endpoints. */
  readonly readMs: number;
}

/** Needs root and nft. @param services each size, with 5 endpoints a Service */
export async function nftablesBench(services: readonly number[], rounds = 3): Promise<void> {
  if (process.getuid?.() !== 0) {
    process.stdout.write('mode nftables: not measured, it needs root\n');
    return;
  }
  process.stdout.write(`load of the machine before: ${loadavg()[0]?.toFixed(1)}\n`);
  for (const size of services) reportSize(size, rounds);
  reportNode(10_000);
  reportOwner(10_000);
  reportCounters(10_000, rounds);
  const open = await build(openProgram);
  if ('lack' in open) {
    process.stdout.write(`mode nftables, opening connections: not measured, ${open.lack}\n`);
    return;
  }
  reportOpening(open.path, Math.max(...services));
  nftablesTraffic(open.path);
}

/** All of sluiced, twice: the second run is the control. */
function reportNode(services: number): void {
  const [one, again] = [nodeInside(services), nodeInside(services)];
  const cold = inside(services, 'ours') as LayoutTimes;
  const alone = {
    load: ['the load alone', cold.loadMs],
    change: ['an endpoint by a new nft, with its end', cold.replaceMs],
  } as const;
  const line = (what: string, name: keyof NodeTimes, asked: string, beside: keyof typeof alone): void => {
    const [title, value] = alone[beside];
    report(
      `mode nftables, sluiced at ${services} Services: ${what}`,
      `${one[name].toFixed(0)} ms`,
      asked,
      `${title} ${value.toFixed(0)} ms, ratio ${ratio(one[name], value)}; A/A control ${ratio(again[name], one[name])}`,
    );
  };
  line('the first load, from the directory to packets, rehearsal included', 'coldMs', 'at most 5 s', 'load');
  line('one endpoint, from the complete bundle to packets', 'endpointMs', 'at most 15 ms', 'change');
  line('one endpoint, until nft has ended', 'endpointKnownMs', 'as little', 'change');
  line('100 Services change: journal and stage', 'stageMs', 'as little', 'change');
  line('100 Services change: switch', 'switchMs', 'at most 10 ms', 'change');
  line('100 Services change: roll back', 'rollBackMs', 'at most 20 ms', 'change');
  line('100 Services change: commit', 'commitMs', 'at most 50 ms', 'change');
}

/** Counters of endpoints beside none, interleaved. */
function reportCounters(services: number, rounds: number): void {
  const runs = { counted: [] as LayoutTimes[], ours: [] as LayoutTimes[], again: [] as LayoutTimes[] };
  for (let round = 0; round < rounds; round++) {
    runs.ours.push(inside(services, 'ours') as LayoutTimes);
    runs.counted.push(inside(services, 'counted') as LayoutTimes);
    runs.again.push(inside(services, 'ours') as LayoutTimes);
  }
  const of = (way: keyof typeof runs, name: keyof LayoutTimes): number => median(runs[way].map((one) => one[name]));
  const line = (what: string, name: keyof LayoutTimes, unit: string): void =>
    report(
      `mode nftables, ${services} Services with counters of endpoints: ${what}`,
      `${of('counted', name).toFixed(0)} ${unit}`,
      'as little',
      `without ${of('ours', name).toFixed(0)} ${unit}, ratio ${ratio(of('counted', name), of('ours', name))}; A/A control ${ratio(of('again', name), of('ours', name))}`,
    );
  line('load by a new nft', 'loadMs', 'ms');
  line('an endpoint is replaced by a new nft', 'replaceMs', 'ms');
  line('all counters of a protocol are read, as for each change', 'readMs', 'ms');
  line('memory of the kernel a Service', 'bytesPerService', 'bytes');
}

/** The output of nftables-owner-inside.ts. */
interface OwnerTimes {
  readonly oneShotMs: number;
  readonly ownedMs: number;
  readonly ownedP99Ms: number;
  readonly againMs: number;
  /** Of the process that owns the table. */
  readonly residentMb: number;
}

/** One endpoint through the process that owns the table, beside a new nft for each change. */
function reportOwner(services: number): void {
  const newer = newerNft();
  if ('lack' in newer) {
    process.stdout.write(`mode nftables, the protected table: not measured, ${newer.lack}\n`);
    return;
  }
  const script = join(import.meta.dirname, 'nftables-owner-inside.ts');
  const shell = `mount -t tmpfs tmpfs /run && mount --bind ${newer.path} /usr/sbin/nft && exec "$@"`;
  const command = ['-n', '-m', 'sh', '-c', shell, 'sh', process.execPath, script, String(services)];
  const times = JSON.parse(execFileSync('/usr/bin/unshare', command, { encoding: 'utf8' })) as OwnerTimes;
  report(
    `mode nftables, ${services} Services, the protected table: one endpoint, from the decision to the kernel's answer`,
    `p50 ${times.ownedMs.toFixed(2)} ms, p99 ${times.ownedP99Ms.toFixed(2)} ms; the owner has ${times.residentMb.toFixed(0)} MB`,
    'p50 at most 3 ms',
    `a new nft each time ${times.oneShotMs.toFixed(2)} ms, ratio ${ratio(times.oneShotMs, times.ownedMs)}; A/A control ${ratio(times.againMs, times.ownedMs)}`,
  );
}

/** The output of nftables-node-inside.ts. */
interface NodeTimes {
  readonly coldMs: number;
  readonly endpointMs: number;
  readonly endpointKnownMs: number;
  readonly stageMs: number;
  readonly switchMs: number;
  readonly rollBackMs: number;
  readonly commitMs: number;
}

/** A round of opening connections takes seconds, and its figure differs by some per cent from that of the next one. */
const openingRounds = 9;

/** Opening a connection, interleaved: the median of the rounds. */
function reportOpening(open: string, largest: number): void {
  const ways = {
    few: [10, 'ours'],
    many: [largest, 'ours'],
    ours: [1_000, 'ours'],
    theirs: [1_000, 'theirs'],
    again: [1_000, 'ours'],
  } as const;
  const times = new Map<keyof typeof ways, number[]>();
  for (let round = 0; round < openingRounds; round++)
    for (const [name, [services, layout]] of Object.entries(ways) as [keyof typeof ways, (typeof ways)['few']][]) {
      const { openUs } = inside(services, layout, open) as { readonly openUs: number };
      times.set(name, [...(times.get(name) ?? []), openUs]);
    }
  const of = (name: keyof typeof ways): number => median(times.get(name) ?? []);
  const line = (one: keyof typeof ways, other: keyof typeof ways, asked: string, title: string): void =>
    report(
      `mode nftables, opening a connection with ${ways[one][0]} Services`,
      `${of(one).toFixed(1)} µs`,
      asked,
      `${title} ${of(other).toFixed(1)} µs, ratio ${ratio(of(one), of(other))}; A/A control ${ratio(of('again'), of('ours'))}`,
    );
  line('many', 'few', 'at most 1.7 times that of 10', '10 Services');
  line('ours', 'theirs', "at most 1.05 times that of kube-proxy's layout", "kube-proxy's layout");
}

function nodeInside(services: number): NodeTimes {
  const script = join(import.meta.dirname, 'nftables-node-inside.ts');
  const shell = 'mount -t tmpfs tmpfs /run && exec "$@"';
  const command = ['-n', '-m', 'sh', '-c', shell, 'sh', process.execPath, script, String(services)];
  return JSON.parse(execFileSync('/usr/bin/unshare', command, { encoding: 'utf8' })) as NodeTimes;
}

function reportSize(services: number, rounds: number): void {
  const runs = { ours: [] as LayoutTimes[], theirs: [] as LayoutTimes[], again: [] as LayoutTimes[] };
  // The layout of kube-proxy takes minutes at a large size: once is enough there.
  const theirRounds = services > 10_000 ? 0 : services > 2_000 ? 1 : rounds;
  for (let round = 0; round < rounds; round++) {
    runs.ours.push(inside(services, 'ours') as LayoutTimes);
    if (round < theirRounds) runs.theirs.push(inside(services, 'theirs') as LayoutTimes);
    runs.again.push(inside(services, 'ours') as LayoutTimes);
  }
  const of = (way: keyof typeof runs, name: keyof LayoutTimes): number => median(runs[way].map((one) => one[name]));
  const beside = (name: keyof LayoutTimes, print: (value: number) => string): string =>
    runs.theirs.length === 0
      ? 'not run at this size'
      : `kube-proxy's layout ${print(of('theirs', name))}, ratio ${ratio(of('theirs', name), of('ours', name))}`;
  const line = (what: string, name: keyof LayoutTimes, asked: string, print: (value: number) => string): void =>
    report(
      `mode nftables, ${services} Services with 5 endpoints: ${what}`,
      print(of('ours', name)),
      asked,
      `${beside(name, print)}; A/A control ${ratio(of('again', name), of('ours', name))}`,
    );
  const time = (value: number): string => ms(value / 1000);
  const precise = (value: number): string => `${value.toFixed(1)} ms`;
  line('load by a new nft', 'loadMs', services > 10_000 ? 'at most 10 s' : 'at most 2 s at 10,000', time);
  line('an endpoint is replaced by a new nft', 'replaceMs', 'at most 15 ms', precise);
  line('an endpoint is added, so the length of its list changes', 'addMs', 'as little', precise);
  line('memory of the kernel a Service', 'bytesPerService', 'at most 1 kB', (value) => `${value.toFixed(0)} bytes`);
}

function inside(services: number, layout: 'ours' | 'theirs' | 'counted', ...open: readonly string[]): unknown {
  const script = join(import.meta.dirname, 'nftables-inside.ts');
  const command = ['-n', process.execPath, script, String(services), layout, ...open];
  return JSON.parse(execFileSync('/usr/bin/unshare', command, { encoding: 'utf8' }));
}

if (import.meta.main)
  await nftablesBench((process.argv[2] ?? '1000,10000').split(',').map(Number), Number(process.argv[3] ?? 3));
