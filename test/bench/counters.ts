// What counting costs a node: memory, idle time and one change, with counters and without, side by side in one run. Run by itself, as root:
// `node test/bench/counters.ts [SERVICES] [WAY,…] [IDLE SECONDS] [CHANGES]`.
import { execFileSync } from 'node:child_process';
import { loadavg } from 'node:os';
import { join } from 'node:path';
import type { Resident } from './live-node.ts';
import { ms, ratio, report } from './measure.ts';

export interface NodeCost {
  /** Per cent of a processor, with tools. */
  readonly idle: number;
  readonly resident: Resident;
  /** Of one endpoint, in seconds: of a processor, with tools and what comes in the second after it; elapsed until the journal has it. */
  readonly change: { readonly processorMedian: number; readonly processorMean: number; readonly elapsed: number };
}

/** The output of counters-inside.ts. */
export type CounterCosts = Readonly<Record<'without' | 'with' | 'again', NodeCost>>;

/** On nodes of each way. Needs root. @param ways the store of mode iptables, or `nftables` */
export function countersBench(
  services: number,
  ways: readonly string[] = ['nft', 'nftables'],
  idleSeconds = 180,
  changes = 21,
): void {
  for (const way of ways) {
    const script = join(import.meta.dirname, 'counters-inside.ts');
    const command = ['-n', '-m', 'sh', '-c', 'mount -t tmpfs tmpfs /run && exec "$@"', 'sh'];
    const args = [...command, process.execPath, script, String(services), way, String(idleSeconds), String(changes)];
    const load = `load ${loadavg()[0]?.toFixed(1)} before`;
    const text = execFileSync('/usr/bin/unshare', args, { encoding: 'utf8' });
    const { without, with: counting, again } = JSON.parse(text) as CounterCosts;
    const title = `counters on, ${services} Services, ${way === 'nftables' ? 'mode nftables' : `mode iptables, ${way}`}`;
    const beside = (of: (cost: NodeCost) => number, print: (value: number) => string): string =>
      `without ${print(of(without))}, ratio ${ratio(of(counting), of(without))}; A/A control ${ratio(of(again), of(without))}; ${load}`;
    const megabytes = (value: number): string => `${value.toFixed(0)} MB`;
    const percent = (value: number): string => `${value.toFixed(2)} %`;
    report(
      `${title}: resident memory of sluiced`,
      `${megabytes(counting.resident.all)}, ${megabytes(counting.resident.own)} its own`,
      'at most 180 MB',
      beside(({ resident }) => resident.all, megabytes),
    );
    report(
      `${title}: processor of sluiced and its tools when idle`,
      percent(counting.idle),
      'at most 1 % for counters',
      beside(({ idle }) => idle, percent),
    );
    report(
      `${title}: processor time of one changed endpoint, median`,
      `${ms(counting.change.processorMedian)}, mean ${ms(counting.change.processorMean)}`,
      'as without',
      `${beside(({ change }) => change.processorMedian, ms)}; mean without ${ms(without.change.processorMean)}`,
    );
    report(
      `${title}: one changed endpoint, from its rendering until the journal has it`,
      ms(counting.change.elapsed),
      'as without',
      beside(({ change }) => change.elapsed, ms),
    );
  }
}

if (import.meta.main) {
  const [services = '10000', ways = 'nft,nftables', idle = '180', changes = '21'] = process.argv.slice(2);
  countersBench(Number(services), ways.split(','), Number(idle), Number(changes));
}
