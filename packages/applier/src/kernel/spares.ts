import { statSync } from 'node:fs';
import { execa } from 'execa';
import { type Command, startOptions } from './run.ts';

const start = ({ file, args }: Command, lockFd: number | undefined, cancelSignal: AbortSignal) =>
  execa(file, args, { ...startOptions(lockFd, 'pipe'), cancelSignal });

/** A tool that runs and waits for what it is to read. */
export interface Spare {
  readonly child: ReturnType<typeof start>;
  /** Whether it was ended because its time was over. */
  readonly isLate: boolean;
  /** Gives it all that it reads, and from now on so much time. */
  feed(input: string, timeoutMs: number): void;
}

/** A spare of a program that was replaced, as by an upgrade, is none: it may not fit what it loads. */
interface Waiting {
  readonly spare: Spare;
  /** Which file it was started from. */
  readonly program: string;
}

/** Says whether a file is the one that it was; empty where nobody can say: who starts it says why. */
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
 * Tools that were started before anybody needs them. Beside the rules of 10,000 Services it takes this process 10 to 15 ms to start one:
 * a tenth of what an endpoint that changes takes in all.
 *
 * A tool that reads what it is to do has asked the kernel nothing and holds no lock before it has read the first line, and it ends when
 * its input does: with `end`, or with this process, however that ends. Both are so for iptables-restore in legacy and nf_tables.
 */
export class Spares {
  readonly #lockFd: number | undefined;
  readonly #wanted = new Map<string, Command>();
  readonly #waiting = new Map<string, Waiting>();

  /** @param lockFd as `runChildren` takes it */
  constructor(lockFd?: number) {
    this.#lockFd = lockFd;
  }

  /** @returns the one for a command, if there is one: it is the caller's; the next `refill` starts another */
  take(command: Command): Spare | undefined {
    if (command.isFrequent !== true || typeof command.input !== 'string') return undefined;
    const key = keyOf(command);
    this.#wanted.set(key, { file: command.file, args: command.args });
    const fit = this.#fit(key, command);
    this.#waiting.delete(key);
    return fit?.spare;
  }

  /** The one that waits, if it is still of the program that would be started now; another one ends. */
  #fit(key: string, { file }: Command): Waiting | undefined {
    const waiting = this.#waiting.get(key);
    if (waiting === undefined || waiting.program === programOf(file)) return waiting;
    this.#waiting.delete(key);
    waiting.spare.child.stdin.end();
    return undefined;
  }

  /** Starts those that were taken. To be called when there is nothing else to do. */
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
      // It ended before it was needed: nobody is to start one after the other.
      this.#waiting.delete(key);
      this.#wanted.delete(key);
    });
  }

  /** Ends those that nobody took. */
  end(): void {
    this.#wanted.clear();
    for (const { spare } of this.#waiting.values()) spare.child.stdin.end();
    this.#waiting.clear();
  }
}
