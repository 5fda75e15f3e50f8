// A node that fetches each two seconds, from a release of many Services to the next one.
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import type { FetchCosts } from './fetch-node-inside.ts';
import { ms, report } from './measure.ts';

/** Needs root, Debian's docker-registry, and what the mode needs. */
export function fetchNodeBench(services: number): void {
  if (process.getuid?.() !== 0) {
    process.stdout.write('a node that fetches: not measured, it needs root\n');
    return;
  }
  for (const mode of ['nftables', 'iptables']) {
    const script = join(import.meta.dirname, 'fetch-node-inside.ts');
    const command = ['-n', '-m', 'sh', '-c', 'mount -t tmpfs tmpfs /run && exec "$@"', 'sh', process.execPath, script];
    const line = execFileSync('/usr/bin/unshare', [...command, String(services), mode], { encoding: 'utf8' });
    const costs = JSON.parse(line) as FetchCosts;
    const title = `one changed Service of ${services}, mode ${mode}, interval 2 s`;
    report(
      `${title}: from the push to rules in the kernel`,
      `p50 ${costs.median.toFixed(1)} s, at most ${costs.most.toFixed(1)} s`,
      'p50 at most 5 s',
      `the push itself ${costs.push.toFixed(1)} s; the first release ${costs.first.toFixed(1)} s`,
    );
    report(
      `${title}: the fetch process`,
      `${ms(costs.processor)} of a processor and ${(costs.bytes / 1000).toFixed(0)} kB for one release; at most ${costs.megabytes.toFixed(0)} MB resident, ${costs.own.toFixed(0)} MB its own afterwards`,
      'at most 60 MB',
      `while nothing is new ${costs.idle.toFixed(1)} % of a processor; with the first release at most ${costs.firstMegabytes.toFixed(0)} MB resident`,
    );
  }
}

if (import.meta.main) fetchNodeBench(Number(process.argv[2] ?? 10_000));
