// What it costs that the rules which lead to the chains of a Service say whose these are: docs/decisions/0010.
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { ratio, report } from './measure.ts';

/** As comments-inside.ts prints it, in milliseconds. */
interface Measured {
  readonly comments: number;
  readonly load: Took;
  readonly change: Took;
}
type Took = Readonly<Record<'with' | 'without' | 'again', { readonly median: number; readonly least: number }>>;

/** Needs root and iptables. */
export function commentsBench(services: number, rounds = 31): void {
  if (process.getuid?.() !== 0) {
    process.stdout.write('comments of leading rules: not measured, it needs root\n');
    return;
  }
  for (const backend of ['nft', 'legacy']) {
    const { comments, load, change } = inside(services, backend, rounds);
    const title = `${comments} rules that lead to Services say whose these are, ${backend}`;
    tell(`${title}: one commit of the nat table`, change);
    tell(`${title}: the first load`, load);
  }
}

function tell(what: string, took: Took): void {
  const both = ({ median, least }: Took['with']): string => `${median.toFixed(1)} ms (the fastest ${least.toFixed(1)})`;
  const ratios = (a: Took['with'], b: Took['with']): string =>
    `${ratio(a.median, b.median)} (${ratio(a.least, b.least)})`;
  report(
    what,
    both(took.with),
    '-',
    `without ${both(took.without)}, ratio ${ratios(took.with, took.without)}; A/A control ${ratios(took.again, took.with)}`,
  );
}

function inside(services: number, backend: string, rounds: number): Measured {
  const script = join(import.meta.dirname, 'comments-inside.ts');
  const shell = 'mount -t tmpfs tmpfs /run && exec "$@"';
  const args = [String(services), backend, String(rounds)];
  const command = ['-n', '-m', 'sh', '-c', shell, 'sh', process.execPath, script, ...args];
  return JSON.parse(execFileSync('/usr/bin/unshare', command, { encoding: 'utf8' })) as Measured;
}

if (import.meta.main) commentsBench(Number(process.argv[2] ?? 10_000), Number(process.argv[3] ?? 31));
