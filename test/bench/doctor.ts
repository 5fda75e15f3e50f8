// How long `sluiced doctor` takes on a node with many Services. Run by itself: `node test/bench/doctor.ts [SERVICES] [WAY,…]`, as root.
import { execFileSync } from 'node:child_process';
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { ratio, report } from './measure.ts';

/** What a run took, with its children: seconds, and seconds of a processor. */
export interface Taken {
  readonly seconds: number;
  readonly processor: number;
}

/** The output of doctor-inside.ts: medians of the rounds. */
export interface DoctorCosts {
  readonly ours: Taken;
  /** The same command again. */
  readonly again: Taken;
  /** The tools that print the rules of this node, alone. */
  readonly tools: Taken;
  readonly unread: readonly string[];
  readonly cause: string;
}

/** On a node of each way. Needs root. @param ways the store of mode iptables, or `nftables` */
export function doctorBench(services: number, rounds = 3, ways: readonly string[] = ['nft', 'nftables']): void {
  for (const way of ways) {
    const script = join(import.meta.dirname, 'doctor-inside.ts');
    const command = ['-n', '-m', 'sh', '-c', 'mount -t tmpfs tmpfs /run && exec "$@"', 'sh'];
    const args = [...command, process.execPath, script, String(services), way, String(rounds)];
    const load = loadavg()[0]?.toFixed(1) ?? '';
    const costs = JSON.parse(execFileSync('/usr/bin/unshare', args, { encoding: 'utf8' })) as DoctorCosts;
    const { ours, again, tools, cause, unread } = costs;
    const print = ({ seconds, processor }: Taken): string =>
      `${seconds.toFixed(1)} s, ${processor.toFixed(1)} s of a processor`;
    report(
      `sluiced doctor, ${services} Services, ${way === 'nftables' ? 'mode nftables' : `mode iptables, ${way}`}`,
      `${print(ours)}; cause ${cause}; not read: ${unread.join(', ') || 'nothing'}`,
      'under 10 s',
      `tools that print the rules, alone: ${print(tools)}, ratio ${ratio(ours.processor, tools.processor)}; A/A control ${ratio(again.processor, ours.processor)}; load ${load} before`,
    );
  }
}

if (import.meta.main) doctorBench(Number(process.argv[2] ?? 10_000), 1, process.argv[3]?.split(','));
