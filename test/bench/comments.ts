// The cost of comments with the key of a Service on the rules that lead to its chains: docs/decisions/0010.
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { ratio, report } from './measure.ts';

/** The output of comments-inside.ts, in milliseconds. */
interface CommentCosts {
  readonly comments: number;
  readonly load: CostByVariant;
  readonly change: CostByVariant;
}
type CostByVariant = Readonly<
  Record<'with' | 'without' | 'again', { readonly median: number; readonly least: number }>
>;

/** Needs root and iptables. */
export function commentsBench(services: number, rounds = 31): void {
  if (process.getuid?.() !== 0) {
    process.stdout.write('comments of leading rules: not measured, it needs root\n');
    return;
  }
  for (const backend of ['nft', 'legacy']) {
    const { comments, load, change } = inside(services, backend, rounds);
    const title = `${comments} rules that lead to Services have its key as comment, ${backend}`;
    tell(`${title}: one commit of the nat table`, change);
    tell(`${title}: the first load`, load);
  }
}

function tell(what: string, costs: CostByVariant): void {
  const both = ({ median, least }: CostByVariant['with']): string =>
    `${median.toFixed(1)} ms (the fastest ${least.toFixed(1)})`;
  const ratios = (a: CostByVariant['with'], b: CostByVariant['with']): string =>
    `${ratio(a.median, b.median)} (${ratio(a.least, b.least)})`;
  report(
    what,
    both(costs.with),
    '-',
    `without ${both(costs.without)}, ratio ${ratios(costs.with, costs.without)}; A/A control ${ratios(costs.again, costs.with)}`,
  );
}

function inside(services: number, backend: string, rounds: number): CommentCosts {
  const script = join(import.meta.dirname, 'comments-inside.ts');
  const shell = 'mount -t tmpfs tmpfs /run && exec "$@"';
  const args = [String(services), backend, String(rounds)];
  const command = ['-n', '-m', 'sh', '-c', shell, 'sh', process.execPath, script, ...args];
  return JSON.parse(execFileSync('/usr/bin/unshare', command, { encoding: 'utf8' })) as CommentCosts;
}

if (import.meta.main) commentsBench(Number(process.argv[2] ?? 10_000), Number(process.argv[3] ?? 31));
