// The cost of an idle node, and of a rollback, compared with a node with ten Services.
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { ratio, report } from './measure.ts';

/** The output of node-inside.ts: milliseconds, per cent of one processor, megabytes; `first` in microseconds. `now` is `own` and `file`. */
interface NodeCosts {
  readonly cold: number;
  readonly idle: number;
  readonly now: number;
  readonly own: number;
  readonly file: number;
  readonly most: number;
  readonly back: number;
  readonly first: number;
}

/** Needs root and iptables. */
export function nodeBench(services: number): void {
  if (process.getuid?.() !== 0) {
    process.stdout.write('cost of a node: not measured, it needs root\n');
    return;
  }
  for (const backend of ['nft', 'legacy', 'nftables']) {
    const few = inside(10, backend);
    const many = inside(services, backend);
    const title = `a node with ${services} Services, ${backend === 'nftables' ? 'mode nftables' : backend}`;
    const beside = (key: keyof NodeCosts, unit: string, digits = 0): string =>
      `10 Services ${few[key].toFixed(digits)} ${unit}, ratio ${ratio(many[key], few[key])}`;
    report(`${title}: rollback by the switch`, `${many.back.toFixed(1)} ms`, 'under 20 ms', beside('back', 'ms', 1));
    report(
      `${title}: the first packet of a connection to the last address`,
      `${many.first.toFixed(1)} µs`,
      'at most 1.2 times that of 10 Services',
      beside('first', 'µs', 1),
    );
    report(
      `${title}: resident memory of sluiced`,
      `${many.now.toFixed(0)} MB: ${parts(many)}; at most ${many.most.toFixed(0)} MB`,
      'under 180 MB',
      `${beside('now', 'MB')}: ${parts(few)}`,
    );
    report(
      `${title}: processor of sluiced and its tools when idle`,
      `${many.idle.toFixed(2)} %`,
      'under 0.5 %',
      beside('idle', '%', 2),
    );
  }
}

/** Pages of files belong to the executable: the kernel has them once for all processes that run it, and drops them when it needs room. */
const parts = ({ own, file }: NodeCosts): string => `${own.toFixed(0)} its own, ${file.toFixed(0)} pages of files`;

function inside(services: number, backend: string): NodeCosts {
  const script = join(import.meta.dirname, 'node-inside.ts');
  const shell = 'mount -t tmpfs tmpfs /run && exec "$@"';
  const command = ['-n', '-m', 'sh', '-c', shell, 'sh', process.execPath, script, String(services), backend];
  return JSON.parse(execFileSync('/usr/bin/unshare', command, { encoding: 'utf8' })) as NodeCosts;
}

if (import.meta.main) nodeBench(Number(process.argv[2] ?? 10_000));
