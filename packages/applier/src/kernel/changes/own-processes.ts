import { readlinkSync } from 'node:fs';
import { basename } from 'node:path';
import { limits } from '../../limits.ts';
import type { Command, OnExit } from '../command.ts';

/** An expected change by a program of this name. */
interface ExpectedWriter {
  readonly name: string;
  readonly untilMs: number;
}

/** The kernel reports this much of a program's name (TASK_COMM_LEN). */
const nameCharactersMax = 15;

/** Where the kernel's own process ids are valid (PROC_PID_INIT_INO). */
const firstPidNamespace = 'pid:[4026531836]';

/** Whether the process ids that the kernel reports are those of this process' namespace: not in a container with its own. */
export function readsProcessIds(): boolean {
  try {
    return readlinkSync('/proc/self/ns/pid') === firstPidNamespace;
  } catch {
    return false;
  }
}

/**
 * The newest processes that Sluice started itself: their changes are not drift. In a PID namespace the kernel reports other ids than
 * `sluiced` knows. There each of our writers accounts for one change by a program of its name, within a minute: when a foreign change is
 * mistaken for it, ours is mistaken for a foreign one, and everything is compared all the same. A failed writer accounts for none: its
 * possible changes are compared, too. A successful writer that changes nothing may hide a foreign change for that minute; a later
 * comparison finds it.
 */
export class OwnProcesses {
  readonly #ids = new Set<number>();
  readonly #readsIds: boolean;
  readonly #monotonicMs: () => number;
  #awaited: readonly ExpectedWriter[] = [];

  /** @param readsIds the result of `readsProcessIds` */
  constructor(readsIds: boolean, monotonicMs: () => number) {
    this.#readsIds = readsIds;
    this.#monotonicMs = monotonicMs;
  }

  /**
   * To be called before the process can have changed anything.
   * @returns a callback for its end; undefined: not needed
   */
  add(pid: number, { file, changesTables }: Pick<Command, 'file' | 'changesTables'>): OnExit | undefined {
    if (this.#readsIds) {
      this.#remember(pid);
      return undefined;
    }
    if (changesTables !== true) return undefined;
    const untilMs = this.#monotonicMs() + limits.ownChangeReportedMs;
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

  #waiting(): readonly ExpectedWriter[] {
    const nowMs = this.#monotonicMs();
    return this.#awaited.filter(({ untilMs }) => nowMs < untilMs);
  }

  /** Whether a reported change is our own. To be called once for each. */
  made(pid: number, name: string): boolean {
    return this.#readsIds ? this.#ids.has(pid) : this.#take(name);
  }

  /** Whether a writer of this name was expected; it no longer is. Those of one name are interchangeable. */
  #take(name: string): boolean {
    const waiting = this.#waiting();
    const at = waiting.findIndex((one) => one.name === name);
    this.#awaited = waiting.filter((_, index) => index !== at);
    return at >= 0;
  }
}
