import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

/** Processor time and memory of a program with its children, from /proc. */
export interface Usage {
  readonly pid: number;
  /** User and system time in milliseconds, including children that have exited and were waited for. */
  readonly cpuMs: number;
  /** Resident memory of the program alone, in MiB. */
  readonly residentMb: number;
  /** Of that, what is not of a file: pages of the executable are shared, and dropped when the kernel needs memory. */
  readonly ownMb: number;
  /** Its peak. */
  readonly peakMb: number;
  /** Resident memory of the program and all its children. */
  readonly treeMb: number;
}

interface Process {
  readonly pid: number;
  readonly parent: number;
  readonly command: string;
  readonly cpuMs: number;
  readonly residentMb: number;
  readonly ownMb: number;
  readonly peakMb: number;
}

const mebibytes = (status: string, key: string): number =>
  Number(new RegExp(`^${key}:\\s+(\\d+)`, 'm').exec(status)?.[1] ?? 0) / 1024;

/** A clock tick is 10 ms on every Linux that Node runs on (USER_HZ). */
function readProcess(pid: number): Process {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ');
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return {
    pid,
    parent: Number(stat[1]),
    command: readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' '),
    // utime, stime, cutime and cstime of proc_pid_stat(5).
    cpuMs: stat.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks) * 10, 0),
    residentMb: mebibytes(status, 'VmRSS'),
    ownMb: mebibytes(status, 'RssAnon'),
    peakMb: mebibytes(status, 'VmHWM'),
  };
}

/** The processes in a process namespace, which `/proc/PID/ns/pid` names. */
function processesIn(namespace: string): readonly Process[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        return readlinkSync(`/proc/${name}/ns/pid`) === namespace ? [readProcess(Number(name))] : [];
      } catch {
        return []; // it has exited
      }
    });
}

/** Resident memory of a process, in MiB, with its part alone of pages that processes share. It walks through all of its pages. */
export const proportionalMb = (pid: number): number =>
  mebibytes(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'), 'Pss');

/**
 * The usage of each program in a process namespace that was started from outside of it, by the first of these words in its command line.
 * @param words such as `kube-proxy`; programs without one are left out
 */
export function usageIn(namespace: string, words: readonly string[]): ReadonlyMap<string, Usage> {
  const processes = processesIn(namespace);
  const pids = new Set(processes.map(({ pid }) => pid));
  const tree = (root: Process): readonly Process[] => [
    root,
    ...processes.filter(({ parent }) => parent === root.pid).flatMap(tree),
  ];
  const roots = processes.filter(({ parent }) => !pids.has(parent));
  return new Map(
    roots.flatMap((root): readonly (readonly [string, Usage])[] => {
      const word = words.find((one) => root.command.includes(one));
      if (word === undefined) return [];
      const all = tree(root);
      const sum = (of: (one: Process) => number): number => all.reduce((total, one) => total + of(one), 0);
      const { pid, residentMb, ownMb, peakMb } = root;
      const [cpuMs, treeMb] = [sum((one) => one.cpuMs), sum((one) => one.residentMb)];
      return [[word, { pid, cpuMs, residentMb, ownMb, peakMb, treeMb }]];
    }),
  );
}
