import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { setFlagsFromString } from 'node:v8';
import { printProblem, type Problem } from '@sluice/bundle';
import type { Access } from '../../cluster/access.ts';
import { leaseLimits, watchLimits } from '../../cluster/limits.ts';
import { EventSender, sendEvent } from '../../cluster/watch/events.ts';
import { Feed } from '../../cluster/watch/feed.ts';
import { Elector } from '../../cluster/watch/lease.ts';
import { LiveTree } from '../../emit/live-tree.ts';
import { exitCodes } from '../../exit.ts';
import { readText } from '../../load/tree.ts';
import type { Config } from '../../render/config.ts';
import { openCluster } from '../from-cluster.ts';
import { say } from '../progress.ts';
import { Committer } from './commits.ts';
import { Alarms, serveHealth } from './health.ts';
import { Metrics } from './metrics.ts';
import { PassedOverWatch } from './passed-over-watch.ts';
import { type Publication, Publisher } from './publisher.ts';
import { QuarantineWatch } from './quarantine-watch.ts';
import { checkPlace, readClusterConfig, type Waiting } from './start.ts';

export interface WatchOptions {
  readonly output: string;
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly config?: string;
  /** Milliseconds. */
  readonly minInterval: number;
  readonly maxDelay: number;
  /** `127.0.0.1:9780` */
  readonly listen?: string;
  /** `namespace/name` of a Lease that one of several holds. */
  readonly lease?: string;
  readonly events?: boolean;
  readonly commit?: boolean;
  readonly push?: boolean;
}

/**
 * How much the heap may grow over what is in use before it is collected, in percent. V8's own choice, made for throughput, is up to four times:
 * 740 MB resident at 10,000 Services with 50,000 endpoints, where this takes 425 MB and the same time.
 */
const heapGrowth = 40;

/** `sluice watch`: keeps a bundle directory what the cluster is, until a signal. */
export async function watchCommand(options: WatchOptions): Promise<number> {
  setFlagsFromString(`--heap-growing-percent=${heapGrowth}`);
  const access = openCluster(options);
  await checkPlace(options);
  const stop = new AbortController();
  const forget = stopAtSignals(stop);
  const state = { metrics: new Metrics(), alarms: new Alarms(() => performance.now()) };
  state.alarms.raise('NOT_READY', 'the cluster was not read yet');
  const { listen } = options;
  const server = listen === undefined ? undefined : await serveHealth(listen, state.alarms, state.metrics);
  try {
    const config = await readClusterConfig(access, options.config, waitingWith(state, stop.signal));
    if (config !== undefined) await new Session(access, config, options, state).run(stop.signal);
  } finally {
    stop.abort();
    server?.close();
    server?.closeAllConnections();
    forget();
  }
  return exitCodes.done;
}

/**
 * The first signal ends the run in order, a second one at once. The listeners stay until the end: while git runs, execa has one too, which
 * takes a signal that nobody else listens to for the end of the process, and a listener for one time is gone when it looks.
 * @returns what takes the listeners away
 */
function stopAtSignals(stop: AbortController): () => void {
  const end = (_signal: NodeJS.Signals, number: number): void => {
    if (stop.signal.aborted) process.exit(128 + number);
    stop.abort();
  };
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, end);
  return () => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.off(signal, end);
  };
}

/** What a run is seen by. */
interface State {
  readonly metrics: Metrics;
  readonly alarms: Alarms;
}

/** Waits for a cluster under an alarm. */
function waitingWith({ metrics, alarms }: State, signal: AbortSignal): Waiting {
  return {
    signal,
    away: (why) => {
      if (alarms.raise('API configmaps', why)) say(`warning: API configmaps: ${why}\n`);
      metrics.away.set(1);
    },
    back: () => {
      if (alarms.clear('API configmaps')) say('configmaps: the API server answers\n');
      metrics.away.set(0);
    },
  };
}

function tell(problems: readonly Problem[]): void {
  for (const problem of problems) say(printProblem(problem));
}

/** One run of `sluice watch`: everything that it is made of, tied together. */
class Session {
  readonly #options: WatchOptions;
  readonly #access: Access;
  readonly #metrics: Metrics;
  readonly #alarms: Alarms;
  readonly #feed: Feed;
  readonly #publisher: Publisher;
  readonly #committer: Committer | undefined;
  readonly #quarantine: QuarantineWatch;
  readonly #passedOver = new PassedOverWatch(say);
  #isLeading = false;
  /** Counts how often this process began or ceased to write. */
  #turn = 0;
  #hasTold = false;

  constructor(access: Access, config: Config, options: WatchOptions, { metrics, alarms }: State) {
    this.#options = options;
    this.#metrics = metrics;
    this.#alarms = alarms;
    this.#access = access;
    this.#feed = new Feed(access, this.#listener, watchLimits);
    const tree = new LiveTree(options.output);
    this.#publisher = new Publisher(
      {
        objects: () => (this.#feed.isComplete ? this.#feed.objects() : undefined),
        config,
        tree,
        textOnDisk: (path) => readText(options.output, path),
        metrics,
        pace: { minIntervalMs: options.minInterval, maxDelayMs: options.maxDelay },
        clock: { now: () => Date.now(), monotonic: () => performance.now() },
      },
      { published: (publication) => this.#published(publication), failed: (problems) => this.#failed(problems) },
    );
    this.#quarantine = new QuarantineWatch(say, options.events === true ? this.#eventSender() : undefined);
    if (options.commit === true) {
      this.#committer = new Committer(options.output, options.push === true, this.#publisher, {
        alarm: (why) => this.#alarm('COMMIT', why),
        clear: () => this.#alarms.clear('COMMIT'),
        say,
      });
    }
  }

  async run(signal: AbortSignal): Promise<void> {
    const { lease } = this.#options;
    const feeding = this.#feed.run(signal);
    const electing = lease === undefined ? this.#lead(false) : this.#elect(lease, signal);
    await Promise.all([feeding, electing]);
    this.#publisher.stop();
    await this.#committer?.finish();
  }

  /** @param others whether another process wrote until now */
  async #lead(others: boolean): Promise<void> {
    this.#isLeading = true;
    const turn = ++this.#turn;
    this.#metrics.leading.set(1);
    await this.#committer?.start(others);
    // What takes time may end after the Lease was lost again, and got again.
    if (turn === this.#turn) this.#publisher.start();
    else if (!this.#isLeading) this.#committer?.stop();
  }

  #follow(): void {
    this.#isLeading = false;
    this.#turn += 1;
    // Whoever writes now says what cannot be rendered.
    this.#alarms.clear('RENDER');
    this.#metrics.leading.set(0);
    this.#publisher.stop();
    this.#committer?.stop();
  }

  async #elect(lease: string, signal: AbortSignal): Promise<void> {
    const [namespace = '', name = ''] = lease.split('/');
    const listener = {
      gained: () => {
        say(`this process holds Lease ${lease} and writes ${this.#options.output}\n`);
        void this.#lead(true);
      },
      lost: (why: string) => {
        say(`this process no longer holds Lease ${lease}: ${why}\n`);
        this.#follow();
      },
      failed: (why: string) => this.#alarm('LEASE', why),
      answered: () => this.#alarms.clear('LEASE'),
    };
    // Another one writes: that this process did not is no alarm.
    this.#alarms.clear('NOT_READY');
    const holder = `${hostname()}_${randomUUID()}`;
    await new Elector(this.#access, { namespace, name, holder }, listener, leaseLimits, watchLimits).run(signal);
  }

  #eventSender(): EventSender {
    return new EventSender(
      (notice) => {
        const uid = this.#feed.uidOf(notice.object);
        return sendEvent(this.#access, { ...notice, ...(uid && { uid }) }, new Date(), watchLimits);
      },
      (why) => say(`warning: ${why}\n`),
    );
  }

  readonly #listener = {
    changed: (change: Parameters<Publisher['changed']>[0]): void => this.#publisher.changed(change),
    current: ({ resource }: { resource: string }): void => {
      if (this.#alarms.clear(`API ${resource}`)) say(`${resource}: the API server answers again\n`);
      this.#metrics.away.set(this.#alarms.standing().some((alarm) => alarm.startsWith('API ')) ? 1 : 0);
      if (!this.#publisher.hasPublished) this.#publisher.look();
    },
    away: ({ resource }: { resource: string }, why: string): void => {
      this.#alarm(`API ${resource}`, why);
      this.#metrics.away.set(1);
    },
  };

  #published(publication: Publication): void {
    this.#alarms.clear('NOT_READY');
    this.#alarms.clear('RENDER');
    if (!this.#hasTold) {
      const { written, removed } = publication;
      const what = `${written.length} files written, ${removed.length} removed`;
      say(`${this.#options.output} is what ${this.#access.server} has: ${what}; it is followed until a signal\n`);
    }
    this.#hasTold = true;
    this.#quarantine.now(publication);
    this.#passedOver.now(publication);
    this.#committer?.add(publication);
  }

  #failed(problems: readonly Problem[]): void {
    tell(problems);
    this.#alarm('RENDER', problems[0]?.message ?? 'nothing could be rendered');
  }

  #alarm(name: string, why: string): void {
    if (this.#alarms.raise(name, why)) say(`warning: ${name}: ${why}\n`);
  }
}
