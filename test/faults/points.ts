import { compareText } from '@sluice/netfilter';
import { randomOf } from '@sluice/testing';

/**
 * One place where a fault is injected, in a form that fits a command line and can be found again: system calls of the program
 * are counted by their name and the file that they touch, tools by the order in which they are started.
 */
export type Point =
  /** A system call of the program itself: the process is killed right before it, or it returns an error. */
  | {
      readonly at: 'program';
      readonly call: string;
      /** The file, where the order of the program's calls for several files varies. */
      readonly path: string | undefined;
      readonly nth: number;
      readonly fault: CallFault;
    }
  /** A tool that changes something: it is killed, or the program, or both. */
  | {
      readonly at: 'tool';
      /** Counted from 1 over the whole run. */
      readonly tool: number;
      readonly call: string;
      readonly nth: number;
      readonly fault: ToolFault;
    };

/** `kill`, or an error of errno(3): once, or with a `+` every time from then on. */
export type CallFault = string;

/**
 * - `tool`: the tool alone is killed right before its system call
 * - `both`: the program right after it
 * - `orphan`: the program is killed and the tool continues
 */
export type ToolFault = 'tool' | 'both' | 'orphan';

const separator = ' ';

/** A point as one line, which `readPoint` reads back. */
export function printPoint(point: Point): string {
  const parts =
    point.at === 'program'
      ? ['program', point.fault, point.call, String(point.nth), point.path ?? '-']
      : ['tool', point.fault, String(point.tool), point.call, String(point.nth)];
  return parts.join(separator);
}

/** @throws when the text is not a point */
export function readPoint(text: string): Point {
  const [at, fault = '', ...rest] = text.split(separator);
  if (at === 'program') {
    const [call = '', nth, path] = rest;
    return { at, fault, call, nth: Number(nth), path: path === '-' ? undefined : path };
  }
  if (at !== 'tool') throw new Error(`not a valid point: ${text}`);
  const [tool, call = '', nth] = rest;
  return { at, fault: fault as ToolFault, tool: Number(tool), call, nth: Number(nth) };
}

/** Calls that always change the disk, and those that change it when a file is open for them. */
const alwaysCounted = /^(fsync|pwrite64|rename|unlink|unlinkat|mkdir|rmdir)$/;
const countedByFile = /^(openat|write)$/;

const callLine = /^(?:\d+ +)?(\w+)\((.*)$/;

/**
 * The points of a program, from what `strace -y` wrote of its main thread.
 * @param state the state directory; calls elsewhere change nothing that lasts
 */
export function programPoints(trace: string, state: string): readonly Point[] {
  const counts = new Map<string, number>();
  const points: Point[] = [];
  for (const line of trace.split('\n')) {
    const [, call = '', rest = ''] = callLine.exec(line) ?? [];
    const path = countedByFile.test(call) ? pathIn(rest, state) : undefined;
    if (path === undefined && !alwaysCounted.test(call)) continue;
    const key = `${call} ${path ?? ''}`;
    const nth = (counts.get(key) ?? 0) + 1;
    counts.set(key, nth);
    const changes = call !== 'openat' || /O_CREAT|O_RDWR|O_WRONLY/.test(rest);
    if (changes && rest.includes(state)) points.push({ at: 'program', call, path, nth, fault: 'kill' });
  }
  return points;
}

function pathIn(text: string, state: string): string | undefined {
  const start = text.indexOf(state);
  return start < 0 ? undefined : /^[^">]+/.exec(text.slice(start))?.[0];
}

/** How many times the program starts a process, from the same trace. */
export function countStarts(trace: string): number {
  return trace.split('\n').filter((line) => /^(?:\d+ +)?clone\(/.test(line)).length;
}

/**
 * The points of one tool, from its `strace` output. The netlink batch of nf_tables, the table of the legacy store and every
 * message of ipset and conntrack change something.
 */
export function toolPoints(tool: number, name: string, trace: string): readonly Point[] {
  const points: Point[] = [{ at: 'tool', tool, call: 'execve', nth: 1, fault: 'orphan' }];
  const counts = new Map<string, number>();
  for (const line of trace.split('\n')) {
    const [, call = '', rest = ''] = callLine.exec(line) ?? [];
    const nth = (counts.get(call) ?? 0) + 1;
    counts.set(call, nth);
    if (!changesKernel(name, call, rest)) continue;
    for (const fault of ['tool', 'both'] as const) points.push({ at: 'tool', tool, call, nth, fault });
  }
  return points;
}

function changesKernel(name: string, call: string, rest: string): boolean {
  if (name.startsWith('ip')) {
    if (name === 'ipset') return call === 'sendto' || call === 'sendmsg';
    return call === 'sendmsg' || (call === 'setsockopt' && /SO_SET_REPLACE|SO_SET_ADD_COUNTERS|, 0x4[01]/.test(rest));
  }
  return call === 'sendto' || call === 'sendmsg';
}

/** The errors of a call on a broken disk, or on a machine that is short of a resource. */
const answers: Readonly<Record<string, readonly CallFault[]>> = {
  openat: ['ENOSPC', 'EROFS+', 'EMFILE'],
  write: ['ENOSPC+', 'EIO'],
  pwrite64: ['ENOSPC', 'EIO', 'EROFS+'],
  fsync: ['EIO', 'EIO+'],
  rename: ['ENOSPC', 'EROFS+'],
  mkdir: ['ENOSPC', 'EROFS+'],
  unlink: ['EIO', 'EROFS+'],
  unlinkat: ['EIO+'],
  rmdir: ['EIO'],
};

/** The same points with errors instead of kills, and one for each process that cannot be started. */
export function errorPoints(points: readonly Point[], starts: number): readonly Point[] {
  const failing = points.flatMap((point) =>
    point.at === 'program' ? (answers[point.call] ?? []).map((fault) => ({ ...point, fault })) : [],
  );
  const unstarted = Array.from({ length: starts }, (_, index): readonly Point[] =>
    ['EAGAIN', 'ENOMEM'].map((fault) => ({ at: 'program', call: 'clone', path: undefined, nth: index + 1, fault })),
  );
  return [...failing, ...unstarted.flat()];
}

/** Draws so many points in all, about equally many from every group. */
export function spread<T>(groups: ReadonlyMap<string, readonly T[]>, count: number, seed: number): readonly T[] {
  const random = randomOf(seed);
  const shuffled = [...groups]
    .toSorted(([a], [b]) => compareText(a, b))
    .map(([, points]) => points.map((point) => ({ point, by: random() })).toSorted((a, b) => a.by - b.by));
  const taken: T[] = [];
  for (let round = 0; taken.length < count && shuffled.some((one) => round < one.length); round++) {
    for (const one of shuffled) {
      const next = one[round];
      if (next && taken.length < count) taken.push(next.point);
    }
  }
  return taken;
}
