// The first load of the rules of many Services into an empty kernel: all of sluiced, compared with one iptables-restore of the same rules
// in layout flat, interleaved at sizes where that is quick, with the exponent of both; at the full size the restore runs once.
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { median, ms, ratio, report } from './measure.ts';

/** The output of cold-inside.ts. */
interface LoadTimes {
  readonly ms: number;
  readonly loadMs: number;
}

const sizes = [500, 1_000, 2_000] as const;

/** Needs root and iptables. @param services the full size */
export function coldBench(services: number, rounds = 3): void {
  if (process.getuid?.() !== 0) {
    process.stdout.write('the first load: not measured, it needs root\n');
    return;
  }
  for (const [backend, asked] of [
    ['nft', 'load 60 times faster than the restore'],
    ['legacy', 'load at most 1.4 times the restore'],
  ] as const) {
    const fit = fitted(backend, rounds);
    const ours = [inside(services, backend, 'ours'), inside(services, backend, 'ours')];
    const theirs = inside(services, backend, 'theirs');
    const [ms1 = Number.NaN, ms2 = Number.NaN] = ours.map(({ loadMs }) => loadMs);
    const load = Math.min(ms1, ms2);
    const all = Math.min(...ours.map((one) => one.ms));
    report(
      `the first load of ${services} Services on ${backend}`,
      `${ms(load / 1000)} from the first rule to packets that meet them; with reading, linking and rehearsing ${ms(all / 1000)}; ${fit.ours}`,
      asked,
      `iptables-${backend}-restore of the flat rules ${ms(theirs.ms / 1000)}, ${ratio(theirs.ms, load)} of the load; ${fit.theirs}; A/A control ${ratio(ms2, ms1)}`,
    );
  }
}

/** The exponent of the load over the sizes, for both programs: 1 is linear, 2 is quadratic. */
function fitted(backend: string, rounds: number): { readonly ours: string; readonly theirs: string } {
  const measured = { ours: sizes.map((): number[] => []), theirs: sizes.map((): number[] => []) };
  for (let round = 0; round < rounds; round++) {
    for (const [index, size] of sizes.entries()) {
      for (const program of ['ours', 'theirs'] as const)
        measured[program][index]?.push(inside(size, backend, program).loadMs);
    }
  }
  const tell = (program: 'ours' | 'theirs'): string => {
    const medians = measured[program].map((times) => median(times));
    const each = sizes.map((size, index) => `${size}: ${ms((medians[index] ?? Number.NaN) / 1000)}`).join(', ');
    return `${each}, exponent ${exponent(sizes, medians).toFixed(2)}`;
  };
  return { ours: tell('ours'), theirs: tell('theirs') };
}

/** The slope of a straight line through the logarithms, by least squares. */
function exponent(xs: readonly number[], ys: readonly number[]): number {
  const [u, v] = [xs.map(Math.log), ys.map(Math.log)];
  const mean = (values: readonly number[]): number => values.reduce((sum, one) => sum + one, 0) / values.length;
  const [mu, mv] = [mean(u), mean(v)];
  const across = u.reduce((sum, one, index) => sum + (one - mu) * ((v[index] ?? mv) - mv), 0);
  return across / u.reduce((sum, one) => sum + (one - mu) ** 2, 0);
}

function inside(services: number, backend: string, program: 'ours' | 'theirs'): LoadTimes {
  const script = join(import.meta.dirname, 'cold-inside.ts');
  const shell = 'mount -t tmpfs tmpfs /run && exec "$@"';
  const command = ['-n', '-m', 'sh', '-c', shell, 'sh', process.execPath, script, String(services), backend, program];
  return JSON.parse(execFileSync('/usr/bin/unshare', command, { encoding: 'utf8' })) as LoadTimes;
}

if (import.meta.main) coldBench(Number(process.argv[2] ?? 10_000), Number(process.argv[3] ?? 3));
