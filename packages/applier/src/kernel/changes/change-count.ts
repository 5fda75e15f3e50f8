import { setTimeout as sleep } from 'node:timers/promises';
import { execa } from 'execa';
import { limits, pauseBeforeRetry, retries } from '../../limits.ts';
import { toolEnvironment } from '../command.ts';
import { activityOf, type Listener, listenerOf, listeningOf } from './netlink-sockets.ts';

/** The paths of two tools. */
interface CountTools {
  /** `xtables-monitor` */
  readonly monitor: string;
  readonly setpriv: string;
}

/**
 * A count of the changes of nf_tables in this network namespace, by any program. No tool prints the kernel's own generation id without
 * reading more than that. But the kernel tells of every socket how much was sent to it and not read, and how much did not fit: a process that
 * listens and never reads is a counter, which costs other programs nothing, and 0.1 ms to look at. A flood only makes it count.
 *
 * The process is a stopped `xtables-monitor`, of 2 MB. It is in a session of its own: a shell that ends continues stopped processes of its
 * session, and ends them. It ends with this process, in any case.
 */
export class ChangeCount {
  readonly #tools: CountTools;
  readonly #monotonicMs: () => number;
  #listener: Listener | undefined;
  #starting: Promise<void> | undefined;
  /** Counts of two processes are never equal. */
  #starts = 0;
  #failures = 0;
  #againMs = -Infinity;
  #stop = (): void => undefined;
  #isClosed = false;

  constructor(tools: CountTools, monotonicMs: () => number) {
    this.#tools = tools;
    this.#monotonicMs = monotonicMs;
  }

  /**
   * The first call starts the process.
   * @returns a text that is the same for as long as nothing has changed; undefined: not known now
   */
  async read(): Promise<string | undefined> {
    if (this.#isClosed) return undefined;
    const count = this.#look();
    if (count !== undefined) return count;
    if (this.#starting === undefined && this.#monotonicMs() < this.#againMs) return undefined;
    this.#starting ??= this.#start().finally(() => {
      this.#starting = undefined;
    });
    await this.#starting;
    return this.#look();
  }

  close(): void {
    this.#isClosed = true;
    this.#stop();
  }

  #look(): string | undefined {
    if (this.#listener === undefined) return undefined;
    const { pid } = this.#listener;
    const socket = listeningOf(this.#listener);
    // One that was continued has read what it counted.
    if (socket !== undefined && activityOf(pid) === 'stopped')
      return `${this.#starts}:${socket.unreadBytes}:${socket.dropped}`;
    this.#listener = undefined;
    this.#stop();
    return undefined;
  }

  async #start(): Promise<void> {
    this.#starts += 1;
    const { monitor, setpriv } = this.#tools;
    const child = execa(setpriv, ['--pdeathsig', 'KILL', monitor, '-e'], {
      env: toolEnvironment,
      extendEnv: false,
      reject: false,
      buffer: false,
      detached: true,
      stdio: 'ignore',
    });
    this.#stop = () => void child.kill('SIGKILL');
    const { pid } = child;
    const listener = pid === undefined ? undefined : await listening(pid, this.#monotonicMs);
    if (listener !== undefined && !this.#isClosed && child.kill('SIGSTOP')) {
      this.#listener = listener;
      this.#failures = 0;
      await stopped(listener.pid, this.#monotonicMs);
      return;
    }
    this.#stop();
    const pauseMs = pauseBeforeRetry(this.#failures, retries.monitor);
    this.#failures += 1;
    this.#againMs = this.#monotonicMs() + pauseMs;
  }
}

/** Waits until a new process listens. @returns undefined: it ended, or does not listen in time */
async function listening(pid: number, monotonicMs: () => number): Promise<Listener | undefined> {
  const untilMs = monotonicMs() + limits.monitorListensMs;
  for (;;) {
    const listener = listenerOf(pid);
    if (listener !== undefined) return listener;
    if (activityOf(pid) === 'ended' || monotonicMs() >= untilMs) return undefined;
    await sleep(limits.monitorLookMs);
  }
}

async function stopped(pid: number, monotonicMs: () => number): Promise<void> {
  const untilMs = monotonicMs() + limits.monitorListensMs;
  while (activityOf(pid) === 'runs' && monotonicMs() < untilMs) await sleep(limits.monitorLookMs);
}
