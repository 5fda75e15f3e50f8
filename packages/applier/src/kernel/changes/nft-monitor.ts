import { createInterface } from 'node:readline';
import { execa } from 'execa';
import { limits, pauseBeforeRetry, retries } from '../../limits.ts';
import type { ForeignChange } from './foreign-change.ts';
import type { Heard } from './hearing.ts';
import { activityOf, type Listener, listenerOf, listeningOf } from './netlink-sockets.ts';
import { NftEvents } from './nft-events.ts';
import type { OwnProcesses } from './own-processes.ts';
import { toolEnvironment } from '../command.ts';

/** The paths of three tools. */
interface MonitorTools {
  readonly monitor: string;
  readonly stdbuf: string;
  readonly setpriv: string;
}

/**
 * Runs `xtables-monitor`, which reports changes of the iptables tables in nf_tables, and restarts it when it ends, with growing delays. It
 * holds no rules, so it takes 2 MB (`nft monitor` takes 127 MB for 60,000 rules). When more happens at once than the kernel buffers for it,
 * as when a whole table is loaded, it ends, and everything is compared as soon as it runs again. It ends with this process, in any case.
 */
export class NftMonitor {
  readonly #tools: MonitorTools;
  readonly #own: OwnProcesses;
  readonly #onChange: (change: ForeignChange) => void;
  readonly #isNft: () => boolean;
  readonly #monotonicMs: () => number;
  #stop = (): void => undefined;
  #pid: number | undefined;
  /** Its socket, and what it had lost when it was first looked at; undefined: not looked at yet, or the kernel does not tell. */
  #socket: { readonly listener: Listener; readonly dropped: number } | undefined;
  #timer: NodeJS.Timeout | undefined;
  #failures = 0;
  #closed = false;
  /** Whether it has run for long enough. */
  #runs = false;
  /** When it runs again at the latest, monotonic, if it ended after it ran: then it asks for a comparison. */
  #returnMs: number | undefined;
  /** Changes that all runs have reported, including our own. */
  reports = 0;
  /** Whether any run has ever reported anything: an old version may not be able to. */
  hasEverReported = false;

  /** @param isNft whether the node runs mode nftables now */
  constructor(
    tools: MonitorTools,
    own: OwnProcesses,
    onChange: (change: ForeignChange) => void,
    isNft: () => boolean,
    monotonicMs: () => number,
  ) {
    this.#monotonicMs = monotonicMs;
    this.#tools = tools;
    this.#own = own;
    this.#onChange = onChange;
    this.#isNft = isNft;
    void this.#listen();
  }

  /** By the kernel's own account of its process and its socket. */
  get state(): Heard['monitor'] {
    if (!this.#runs || this.#pid === undefined) return 'away';
    const activity = activityOf(this.#pid);
    if (activity !== 'runs') return activity === 'ended' ? 'away' : 'behind';
    const listener = this.#socket?.listener ?? listenerOf(this.#pid);
    // Where its files may not be looked at, only its reports tell.
    if (listener === undefined) return 'hears';
    const { unreadBytes = 1, dropped = 0 } = listeningOf(listener) ?? {};
    this.#socket ??= { listener, dropped };
    return unreadBytes > 0 || dropped !== this.#socket.dropped ? 'behind' : 'hears';
  }

  /** Ends it, as it does not hear; another one follows, after a pause that grows until one reports something. */
  restart(): void {
    this.#stop();
  }

  /** When its next comparison comes, monotonic, in milliseconds: until then no other look is needed. -Infinity: none comes. */
  get returnMs(): number {
    return this.#returnMs ?? -Infinity;
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#stop();
  }

  async #listen(): Promise<void> {
    const { monitor, stdbuf, setpriv } = this.#tools;
    // Line buffered: a pipe would be flushed every few kilobytes.
    const args = ['--pdeathsig', 'KILL', stdbuf, '--output=L', monitor, '--event'];
    const child = execa(setpriv, args, {
      env: toolEnvironment,
      extendEnv: false,
      reject: false,
      // Read as it comes: the output of weeks is not kept.
      buffer: false,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#stop = () => void child.kill('SIGKILL');
    this.#pid = child.pid;
    this.#socket = undefined;
    this.#timer = setTimeout(() => this.#relied(), limits.monitorTrustMs);
    let errors = '';
    child.stderr
      .setEncoding('utf8')
      .on('data', (part: string) => void (errors = `${errors}${part}`.slice(-errorCharactersMax)));
    let reports = 0;
    const events = new NftEvents((pid, name) => this.#own.made(pid, name), this.#isNft);
    createInterface({ input: child.stdout }).on('line', (line) => {
      const change = events.read(line);
      if (events.reports > reports) this.#countReports(events.reports - reports);
      reports = events.reports;
      if (change) this.#onChange(change);
    });
    await child;
    clearTimeout(this.#timer);
    if (this.#closed) return;
    // The kernel told it of more changes than it could read.
    if (errors.includes('No buffer space available')) this.#countReports(0);
    // All earlier changes were reported; later ones are found by a comparison when it runs again, or by polling.
    if (this.#returnMs !== undefined) this.#doubt();
    const soonMs = this.#monotonicMs() + 2 * (retries.monitor.leastMs + limits.monitorTrustMs);
    this.#returnMs = this.#runs ? soonMs : undefined;
    this.#runs = false;
    this.#failures += 1;
    const delayMs = pauseBeforeRetry(this.#failures - 1, retries.monitor);
    this.#timer = setTimeout(() => void this.#listen(), delayMs);
  }

  /** Earlier changes are not known, so everything is compared once. */
  #relied(): void {
    this.#runs = true;
    this.#returnMs = undefined;
    this.#doubt();
  }

  #countReports(changes: number): void {
    this.reports += changes;
    this.hasEverReported = true;
    this.#failures = 0;
  }

  #doubt(): void {
    this.#onChange({ by: undefined, what: [], isDoubt: true });
  }
}

const errorCharactersMax = 1_000;
