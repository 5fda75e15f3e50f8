import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';

export interface MeasuredRun {
  readonly seconds: number;
  /** The child's high-water mark of resident memory. */
  readonly megabytes: number;
}

/** Runs a program to its end and measures it from outside. */
export async function runMeasured(
  command: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = process.env,
): Promise<MeasuredRun> {
  const started = performance.now();
  const child = spawn(command, args, { stdio: ['ignore', 'ignore', 'pipe'], env });
  let kilobytes = 0;
  let errors = '';
  child.stderr.on('data', (data) => (errors += String(data)));
  const look = setInterval(() => (kilobytes = Math.max(kilobytes, highWaterMark(child.pid))), 10);
  const code = await new Promise<number | null>((resolve, reject) => child.once('exit', resolve).once('error', reject));
  clearInterval(look);
  if (code !== 0) throw new Error(`${command} ${args.join(' ')} exited with ${code}: ${errors.slice(-2000)}`);
  return { seconds: (performance.now() - started) / 1000, megabytes: kilobytes / 1024 };
}

/** The peak memory of a process, in KiB; 0 when it has exited. */
export function highWaterMark(pid: number | undefined): number {
  try {
    return Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0);
  } catch {
    return 0; // it has exited
  }
}

/** Runs several commands alternately, so that a busy machine slows all of them down alike. */
export async function interleave<K extends string>(
  rounds: number,
  ways: Readonly<Record<K, () => Promise<MeasuredRun>>>,
): Promise<Record<K, MeasuredRun>> {
  const runs = Object.fromEntries(Object.keys(ways).map((name) => [name, [] as MeasuredRun[]])) as Record<
    K,
    MeasuredRun[]
  >;
  for (let round = 0; round < rounds; round++) {
    for (const name of Object.keys(ways) as K[]) runs[name].push(await ways[name]());
  }
  return Object.fromEntries((Object.keys(ways) as K[]).map((name) => [name, medianRun(runs[name])])) as Record<
    K,
    MeasuredRun
  >;
}

const medianRun = (runs: readonly MeasuredRun[]): MeasuredRun => ({
  seconds: median(runs.map((run) => run.seconds)),
  megabytes: Math.max(...runs.map((run) => run.megabytes)),
});

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

/** The percentile of sorted milliseconds. */
export const percentile = (sorted: readonly number[], share: number): string =>
  `${(sorted[Math.ceil(sorted.length * share) - 1] ?? Number.NaN).toFixed(0)} ms`;

export const ms = (seconds: number): string => `${(seconds * 1000).toFixed(0)} ms`;
export const ratio = (a: number, b: number): string => `${(a / b).toFixed(2)}×`;

/** One line of the report. */
export function report(what: string, ours: string, target: string, baseline: string): void {
  process.stdout.write(`${what}\n    ours     ${ours}\n    asked    ${target}\n    baseline ${baseline}\n`);
}

/** The resident memory of a process. */
export function residentMegabytes(pid: number): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;
}

/** User and system time: fields 14 and 15 of /proc/PID/stat, in hundredths of a second. */
export function cpuSeconds(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /, '')
    .split(' ');
  return (Number(fields[11]) + Number(fields[12])) / 100;
}
