import { readlinkSync } from 'node:fs';
import { basename } from 'node:path';
import { limits } from '../limits.ts';
import type { Command, Ended } from './run.ts';

/** A change that a program of this name is to be heard of. */
interface Writer {
  readonly name: string;
  readonly untilMs: number;
}

/** Of the name of a program the kernel tells so much (TASK_COMM_LEN). */
const nameCharactersMax = 15;

/** Where the kernel's own ids of processes are valid (PROC_PID_INIT_INO). */
const firstPidNamespace = 'pid:[4026531836]';

/** Whether the ids that the kernel tells are those of this process' namespace: not in a container with one of its own. */
export function readsProcessIds(): boolean {
  try {
    return readlinkSync('/proc/self/ns/pid') === firstPidNamespace;
  } catch {
    return false;
  }
}

/**
 * The processes that Sluice started itself, the newest of them: what they change is no drift. In a namespace of process ids the kernel
 * tells other ids than `sluiced` knows. There each of our writers stands for one change by a program of its name, within a minute: when
 * somebody else's change is taken for it, ours is taken for somebody else's, and everything is compared all the same. A writer that
 * failed stands for none: what it may have changed before is compared, too. One that ends well and changes nothing may hide a change of
 * somebody else's for that minute; what no event tells is found by a later comparison.
 */
export class OwnProcesses {
  readonly #ids = new Set<number>();
  readonly #readsIds: boolean;
  readonly #monotonicMs: () => number;
  #awaited: readonly Writer[] = [];

  /** @param readsIds what `readsProcessIds` says */
  constructor(readsIds: boolean, monotonicMs: () => number) {
    this.#readsIds = readsIds;
    this.#monotonicMs = monotonicMs;
  }

  /**
   * To be called before the process can have changed anything.
   * @returns to be called when it has ended; undefined: nobody needs to know
   */
  add(pid: number, { file, input }: Pick<Command, 'file' | 'input'>): Ended | undefined {
    if (this.#readsIds) {
      this.#remember(pid);
      return undefined;
    }
    // Only what reads something changes tables.
    if (input === undefined) return undefined;
    const untilMs = this.#monotonicMs() + limits.ownChangeToldMs;
    const name = basename(file).slice(0, nameCharactersMax);
    this.#awaited = [...this.#waiting(), { name, untilMs }];
    return (exitCode) => void (exitCode !== 0 && this.#take(name));
  }

  #remember(pid: number): void {
    this.#ids.delete(pid);
    this.#ids.add(pid);
    const [oldest] = this.#ids;
    if (this.#ids.size > limits.ownProcessesKept && oldest !== undefined) this.#ids.delete(oldest);
  }

  #waiting(): readonly Writer[] {
    const nowMs = this.#monotonicMs();
    return this.#awaited.filter(({ untilMs }) => nowMs < untilMs);
  }

  /** Whether a change that the kernel tells of is our own. To be asked once for each. */
  made(pid: number, name: string): boolean {
    return this.#readsIds ? this.#ids.has(pid) : this.#take(name);
  }

  /** Whether one of a name was awaited; it is not any more. Those of one name are alike. */
  #take(name: string): boolean {
    const waiting = this.#waiting();
    const at = waiting.findIndex((one) => one.name === name);
    this.#awaited = waiting.filter((_, index) => index !== at);
    return at >= 0;
  }
}
