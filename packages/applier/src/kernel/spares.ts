import { statSync } from 'node:fs';
import { execa } from 'execa';
import { type Command, type PipedChild, startOptions } from './command.ts';

const start = ({ file, args }: Command, lockFd: number | undefined, cancelSignal: AbortSignal): PipedChild =>
  execa(file, args, { ...startOptions(lockFd, 'pipe'), cancelSignal });

/** A running tool that waits for its input. */
interface Spare {
  readonly child: PipedChild;
  /** Whether it was killed by its timeout. */
  readonly isLate: boolean;
  /** Gives it its whole input; its timeout begins now. */
  feed(input: string, timeoutMs: number): void;
}

/** Not used when its program was replaced, as by an upgrade: the old one may not fit what it loads. */
interface WaitingSpare {
  readonly spare: Spare;
  /** Identifies the file that it was started from. */
  readonly program: string;
}

/** Identifies the version of a program file; empty when it cannot be read: starting it reports why. */
function programOf(file: string): string {
  try {
    const { dev, ino, size, mtimeNs } = statSync(file, { bigint: true });
    return [dev, ino, size, mtimeNs].join(':');
  } catch {
    return '';
  }
}

const keyOf = ({ file, args }: Command): string => JSON.stringify([file, args]);

/**
 * Tools that are started before they are needed. With the rules of 10,000 Services in memory, starting one takes this process 10 to 15 ms:
 * a tenth of the time for an endpoint update.
 *
 * A tool that reads its task from its input has asked the kernel nothing and holds no lock before the first line, and it ends with its
 * input: at `end`, or with this process, in any case. Both hold for iptables-restore in legacy and nf_tables.
 */
export class Spares {
  readonly #lockFd: number | undefined;
  readonly #wanted = new Map<string, Command>();
  readonly #waiting = new Map<string, WaitingSpare>();

  /** @param lockFd as `runChildren` takes it */
  constructor(lockFd?: number) {
    this.#lockFd = lockFd;
  }

  /** @returns the spare for a command, if any, which now belongs to the caller; the next `refill` starts another */
  take(command: Command): Spare | undefined {
    if (command.isFrequent !== true || typeof command.input !== 'string') return undefined;
    const key = keyOf(command);
    this.#wanted.set(key, { file: command.file, args: command.args });
    const fit = this.#fit(key, command);
    this.#waiting.delete(key);
    return fit?.spare;
  }

  /** The spare, if its program is still the one that would be started now; otherwise it ends. */
  #fit(key: string, { file }: Command): WaitingSpare | undefined {
    const waiting = this.#waiting.get(key);
    if (waiting === undefined || waiting.program === programOf(file)) return waiting;
    this.#waiting.delete(key);
    waiting.spare.child.stdin.end();
    return undefined;
  }

  /** Starts replacements of spares that were taken. To be called when idle. */
  refill(): void {
    for (const [key, command] of this.#wanted) if (!this.#fit(key, command)) this.#start(key, command);
  }

  #start(key: string, command: Command): void {
    const late = new AbortController();
    const program = programOf(command.file);
    const child = start(command, this.#lockFd, late.signal);
    let timer: NodeJS.Timeout | undefined;
    const spare: Spare = {
      child,
      get isLate() {
        return late.signal.aborted;
      },
      feed(input, timeoutMs) {
        timer = setTimeout(() => late.abort(), timeoutMs);
        child.stdin.end(input);
      },
    };
    this.#waiting.set(key, { spare, program });
    void child.then(() => {
      clearTimeout(timer);
      if (this.#waiting.get(key)?.spare !== spare) return;
      // It ended before it was needed: do not start one after the other.
      this.#waiting.delete(key);
      this.#wanted.delete(key);
    });
  }

  /** Ends the spares that were not taken. */
  end(): void {
    this.#wanted.clear();
    for (const { spare } of this.#waiting.values()) spare.child.stdin.end();
    this.#waiting.clear();
  }
}
