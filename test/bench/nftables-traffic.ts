// Connections lost while sluiced changes Services in mode nftables, at the highest rate at which a run without changes loses none.
import { execFileSync } from 'node:child_process';
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { build, type GoProgram } from '../parity/build.ts';
import { report } from './measure.ts';

/** `open/`: opens connections. */
export const openProgram: GoProgram = {
  name: 'open',
  module: join(import.meta.dirname, 'open'),
  package: '.',
  version: '1',
};

interface Run {
  readonly seconds: number;
  readonly sent: number;
  readonly lost: number;
}

/** The output of nftables-traffic-inside.ts. */
interface Traffic {
  readonly rate: number;
  readonly before: Run;
  readonly changed: Run;
  readonly after: Run;
  readonly counts: Readonly<Record<string, number>>;
}

/** Needs root, nft and iproute2. @param open the program @param changes 1,000 take a quarter of an hour */
export function nftablesTraffic(open: string, changes = 100, rates = [5_000, 10_000, 20_000, 40_000]): void {
  const script = join(import.meta.dirname, 'nftables-traffic-inside.ts');
  const shell = 'mount -t tmpfs tmpfs /run && exec "$@"';
  const args = [script, open, '1000', String(changes), ...rates.map(String)];
  const command = ['-n', '-m', 'sh', '-c', shell, 'sh', process.execPath, ...args];
  const traffic = JSON.parse(execFileSync('/usr/bin/unshare', command, { encoding: 'utf8' })) as Traffic;
  const { rate, before, changed, after, counts } = traffic;
  const lost = (run: Run): string => `${run.lost} of ${run.sent}`;
  const done = Object.entries(counts).map(([ending, count]) => `${count} × ${ending}`);
  report(
    `mode nftables, ${rate} new connections a second while 100 of 1000 Services change (${done.join(', ')})`,
    `${lost(changed)} lost in ${changed.seconds.toFixed(0)} s, ${(changed.sent / changed.seconds).toFixed(0)} a second`,
    '0, at 5000 or more a second',
    `without changes: before ${lost(before)}, after ${lost(after)}; load ${loadavg()[0]?.toFixed(1)}`,
  );
}

if (import.meta.main) {
  const open = await build(openProgram);
  if ('lack' in open) throw new Error(open.lack);
  const [changes = 1_000, ...rates] = process.argv.slice(2).map(Number);
  nftablesTraffic(open.path, changes, rates.length > 0 ? rates : undefined);
}
