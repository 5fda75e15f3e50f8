// Mode nftables in the kernel, without programs: the table of Sluice beside the layout of kube-proxy 1.37, both as text by one nft.
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { median, ms, ratio, report } from './measure.ts';

/** The output of nftables-inside.ts. */
interface LayoutTimes {
  readonly loadMs: number;
  readonly replaceMs: number;
  readonly addMs: number;
  readonly bytesPerService: number;
}

/** Needs root and nft. @param services each size, with 5 endpoints a Service */
export function nftablesBench(services: readonly number[], rounds = 3): void {
  if (process.getuid?.() !== 0) {
    process.stdout.write('mode nftables: not measured, it needs root\n');
    return;
  }
  for (const size of services) reportSize(size, rounds);
  reportNode(10_000);
}

/** All of sluiced, twice: the second run is the control. */
function reportNode(services: number): void {
  const [one, again] = [nodeInside(services), nodeInside(services)];
  const line = (what: string, name: keyof NodeTimes, asked: string, baseline: string): void =>
    report(
      `mode nftables, sluiced at ${services} Services: ${what}`,
      `${one[name].toFixed(0)} ms`,
      asked,
      `${baseline}; A/A control ${ratio(again[name], one[name])}`,
    );
  const cold = inside(services, 'ours');
  const beside = (name: keyof NodeTimes, value: number, title: string): string =>
    `${title} ${ms(value / 1000)}, ratio ${ratio(one[name], value)}`;
  line(
    'the first load, from the directory to packets, rehearsal included',
    'coldMs',
    'at most 5 s',
    beside('coldMs', cold.loadMs, 'the load alone'),
  );
  line(
    'one endpoint, from the complete bundle to packets',
    'endpointMs',
    'at most 15 ms',
    beside('endpointMs', cold.replaceMs, 'a new nft for an endpoint'),
  );
  line(
    '100 Services change: stage and switch',
    'switchMs',
    'switch at most 10 ms',
    beside('switchMs', cold.replaceMs, 'a new nft for an endpoint'),
  );
  line(
    '100 Services change: commit to end, with the pause for packets in flight',
    'commitMs',
    'commit at most 50 ms',
    beside('commitMs', cold.replaceMs, 'a new nft for an endpoint'),
  );
}

/** The output of nftables-node-inside.ts. */
interface NodeTimes {
  readonly coldMs: number;
  readonly endpointMs: number;
  readonly switchMs: number;
  readonly commitMs: number;
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
    runs.ours.push(inside(services, 'ours'));
    if (round < theirRounds) runs.theirs.push(inside(services, 'theirs'));
    runs.again.push(inside(services, 'ours'));
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

function inside(services: number, layout: 'ours' | 'theirs'): LayoutTimes {
  const script = join(import.meta.dirname, 'nftables-inside.ts');
  const command = ['-n', process.execPath, script, String(services), layout];
  return JSON.parse(execFileSync('/usr/bin/unshare', command, { encoding: 'utf8' })) as LayoutTimes;
}

if (import.meta.main)
  nftablesBench((process.argv[2] ?? '1000,10000').split(',').map(Number), Number(process.argv[3] ?? 3));
