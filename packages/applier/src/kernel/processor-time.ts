import { readFileSync } from 'node:fs';
import type { Run } from './command.ts';

/** USER_HZ, which /proc counts in; 100 on every architecture that Node runs on (proc(5), `sysconf(_SC_CLK_TCK)`). */
const ticksPerSecond = 100;

/**
 * Processor time in milliseconds that this process has used, with its ended children. The cost of a poll must not depend on waiting: a busy
 * machine would be polled least often.
 */
export function processorMs(): number {
  return ownMs() + childrenMs();
}

/** Of this process alone, with its threads. */
function ownMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}

/** Of this thread alone: others collect garbage and compile for all that the process does. */
export function threadMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}

/** `cutime` and `cstime`, fields 16 and 17 of /proc/self/stat (proc(5)); the name in field 2 may contain anything. */
function childrenMs(): number {
  try {
    const text = readFileSync('/proc/self/stat', 'latin1');
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    return ((Number(fields[13]) + Number(fields[14])) * 1_000) / ticksPerSecond;
  } catch {
    return 0;
  }
}

/** The processor time of ended children when the end of one was seen last. */
let seenMs = 0;

/**
 * The processor time of one child. The kernel tells that of all ended children together, so each end has to be seen: what came since the end
 * before is that of the child that ended now. Children that end in the same moment count for the first of them.
 */
export class ChildTime {
  readonly #beginMs = childrenMs();

  /** To be called once, right after the child has ended. @returns milliseconds, in steps of 10 */
  end(): number {
    const nowMs = childrenMs();
    const usedMs = nowMs - Math.max(this.#beginMs, seenMs);
    seenMs = nowMs;
    return usedMs;
  }
}

/** What one activity costs, in milliseconds of processor time: its tools, and the work of this process for it. Other work goes on meanwhile. */
export class WorkCost {
  #usedMs = 0;

  get usedMs(): number {
    return this.#usedMs;
  }

  /** Counts work that waits for nothing. */
  own<T>(work: () => T): T {
    const beginMs = threadMs();
    try {
      return work();
    } finally {
      this.#usedMs += threadMs() - beginMs;
    }
  }

  /** @returns `run`, whose tools count from then on, and what takes their output */
  of(run: Run): Run {
    return (command) => {
      const { onOutput } = command;
      return run({
        ...command,
        ...(onOutput ? { onOutput: (part: string) => this.own(() => onOutput(part)) } : {}),
        onUsed: (ms) => {
          this.#usedMs += ms;
        },
      });
    };
  }
}
