import { randomUUID } from 'node:crypto';
import { fstatSync } from 'node:fs';
import { hostname } from 'node:os';
import { isProblem } from '@sluice/bundle';
import { type Problem, removalDefaults } from '@sluice/netfilter';
import { isJournal, type LogFormat, type LogLevel } from '@sluice/cli';
import { type AdjustableLog, type Log, makeLog } from '@sluice/cli/log';
import type { Access } from '../../cluster/access.ts';
import { leaseLimits, watchLimits } from '../../cluster/limits.ts';
import { EventSender, sendEvent } from '../../cluster/watch/events.ts';
import { Feed, type ObjectChange } from '../../cluster/watch/feed.ts';
import { Elector } from '../../cluster/watch/lease.ts';
import { LiveTree } from '../../emit/live-tree.ts';
import { exitCodes } from '../../exit.ts';
import { openTree, readText } from '../../load/tree.ts';
import { LiveRender } from '../../render/incremental/live-render.ts';
import type { SluiceConfig } from '../../render/model/config.ts';
import { Stopped } from '../failure/failure.ts';
import { openCluster } from '../input/from-cluster.ts';
import { type ReleaseTarget, releaseTarget } from './release-target.ts';
import { Releases } from './releases.ts';
import { commitLimits } from './commit-schedule.ts';
import { Commits, type Recorder } from './commits.ts';
import { Alarms, serveHealth } from './health.ts';
import { type Heap, MemoryReturn, watchHeap } from './heap.ts';
import { WatchLoop } from './loop.ts';
import { Metrics } from './metrics.ts';
import { Publisher } from './publisher.ts';
import { ReleaseEndpoints, type Withdrawn } from './release-endpoints.ts';
import { WatchReport } from './report.ts';
import { oneAfterTheOther, serialsOfLease } from './serials.ts';
import { openServer, type ServeOptions } from './serve/open.ts';
import type { ReleaseServer } from './serve/server.ts';
import { checkOutput, readClusterConfig, type ClusterWait } from './start.ts';

interface WatchOptions extends ServeOptions {
  readonly output: string;
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly config?: string;
  /** Renders for this node alone. */
  readonly node?: string;
  /** A release directory: its Services are rendered, with the endpoints of the cluster. */
  readonly release?: string;
  readonly withdrawn?: Withdrawn;
  /** Milliseconds. */
  readonly minInterval: number;
  readonly maxDelay: number;
  /** `127.0.0.1:9780` */
  readonly listen?: string;
  /** `namespace/name` of the Lease for leader election among several replicas. */
  readonly lease?: string;
  readonly events?: boolean;
  /** Milliseconds; 0: no removal is held. */
  readonly removalHold?: number;
  /** 0 to 1. */
  readonly removalShare?: number;
  readonly removalLeast?: number;
  readonly acceptRemoval?: boolean;
  readonly commit?: boolean;
  /** True: commits, to the remote branch; else where releases go. */
  readonly push?: true | string;
  /** Signs releases. */
  readonly key?: string;
  readonly logFormat: LogFormat;
  readonly logLevel: LogLevel;
}

/** `sluice watch`: keeps a bundle directory up to date with the cluster, until a signal. */
export async function watchCommand(options: WatchOptions): Promise<number> {
  const heap = watchHeap();
  const log = openLog(options);
  const access = openCluster(options);
  const target = targetOf(options);
  const isPushing = options.push === true;
  await checkOutput({ output: options.output, commit: options.commit === true || isPushing, push: isPushing }, log);
  log.info(
    {},
    `reads ${options.node === undefined ? 'the cluster' : `what Node ${options.node} needs`} from ${access.server}`,
  );
  const stop = new AbortController();
  const forget = stopAtSignals(stop);
  const state = { log, metrics: new Metrics(), alarms: new Alarms(() => performance.now()), heap };
  state.alarms.raise('NOT_READY', 'the cluster has not been read yet');
  const { listen } = options;
  const releases = await openServer(options, {
    followers: (count) => state.metrics.followers.set(count),
    failed: (why) => {
      if (why === undefined) state.alarms.clear('SERVE');
      else if (state.alarms.raise('SERVE', why)) log.warn({ alarm: 'SERVE' }, `SERVE: ${why}`);
    },
  });
  const health = listen === undefined ? undefined : serveHealth(listen, state.alarms, state.metrics);
  try {
    await health;
    // No other process publishes: what is there is the newest release, also while the API server is away.
    if (options.lease === undefined) releases?.serve();
    const config = await readClusterConfig(access, options.config, { log, ...clusterWait(state, stop.signal) });
    const all = { ...options, target, releases };
    if (config !== undefined) await new WatchSession(access, config, all, state).run(stop.signal);
  } finally {
    stop.abort();
    releases?.close();
    // Where it could not listen, the command ends with its reason.
    const server = await health?.catch(() => undefined);
    server?.close();
    server?.closeAllConnections();
    forget();
  }
  return exitCodes.done;
}

/** @throws Stopped for options that contradict each other */
function targetOf({ push, key, commit }: WatchOptions): ReleaseTarget | undefined {
  if (typeof push === 'string' && commit !== true) return releaseTarget(push, key);
  if (typeof push !== 'string' && key === undefined) return undefined;
  throw new Stopped({
    code: 'REGISTRY_INVALID',
    level: 'error',
    message: 'Cannot push: a registry gets releases, which --key signs, and Git gets commits',
    hint: 'Pass --push with oci://REGISTRY/REPOSITORY:TAG or oci:DIR:TAG without --commit, or --push alone without --key',
  });
}

/** Nothing is rendered then: nodes that endpoints name would take its place. */
const noSuchNode = (node: string, server: string): Problem => ({
  code: 'NODE_UNKNOWN',
  level: 'error',
  message: `Cannot render for Node ${node}: ${server} has no such Node, so the directory stays as it is`,
  hint: 'Pass the name of the Node as `kubectl get nodes` prints it; a kubelet that starts makes its Node soon',
});

/** The files of the bundle in a directory; undefined: it has none. */
function bundleIn(output: string): ReadonlyMap<string, string> | undefined {
  const files = openTree(output);
  return isProblem(files) ? undefined : files;
}

/** The log goes to standard error. Signals change its level; without listeners SIGUSR2 would end the process, and SIGUSR1 open a debugger. */
function openLog({ logFormat, logLevel }: WatchOptions): AdjustableLog {
  const log = makeLog(
    { format: logFormat, level: logLevel },
    {
      write: (line) => process.stderr.write(line),
      isJournal: isJournal(process.env['JOURNAL_STREAM'], () => fstatSync(process.stderr.fd)),
    },
  );
  process.on('SIGUSR1', () => log.moreDetail());
  process.on('SIGUSR2', () => log.lessDetail());
  return log;
}

/**
 * The first signal ends the run in order, a second one immediately. The listeners stay until the end: while git runs, execa has a
 * listener as well, which ends the process if it is the only one, and a one-time listener is removed before execa checks.
 * @returns removes the listeners
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

/** What the parts of a run share. */
interface WatchState {
  readonly log: Log;
  readonly metrics: Metrics;
  readonly alarms: Alarms;
  readonly heap: Heap;
}

/** Raises an alarm while waiting for a cluster. */
function clusterWait({ log, metrics, alarms }: WatchState, signal: AbortSignal): ClusterWait {
  const alarm = 'API configmaps';
  return {
    signal,
    away: ({ message, problem: { hint } }) => {
      if (alarms.raise(alarm, message)) log.warn({ alarm, hint }, `${alarm}: ${message}`);
      metrics.away.set(1);
    },
    back: () => {
      if (alarms.clear(alarm)) log.info({ alarm }, 'configmaps: the API server answers');
      metrics.away.set(0);
    },
  };
}

type SessionOptions = WatchOptions & {
  readonly target: ReleaseTarget | undefined;
  readonly releases: ReleaseServer | undefined;
};

/** How often the release directory is looked at: a stat. */
const releaseMs = 1_000;

/** One run of `sluice watch`: connects feed, loop and leader election. */
class WatchSession {
  readonly #options: SessionOptions;
  readonly #access: Access;
  readonly #log: Log;
  readonly #metrics: Metrics;
  readonly #alarms: Alarms;
  readonly #feed: Feed;
  readonly #report: WatchReport;
  readonly #loop: WatchLoop;
  readonly #release: ReleaseEndpoints | undefined;
  readonly #elector: Elector | undefined;

  constructor(
    access: Access,
    config: SluiceConfig,
    options: SessionOptions,
    { log, metrics, alarms, heap }: WatchState,
  ) {
    const { output, node, release, withdrawn = 'keep' } = options;
    this.#options = options;
    this.#log = log;
    this.#metrics = metrics;
    this.#alarms = alarms;
    this.#access = access;
    this.#elector = options.lease === undefined ? undefined : this.#electorOf(options.lease);
    this.#feed = new Feed(access, this.#listener, watchLimits, node);
    const events = options.events === true ? this.#eventSender() : undefined;
    this.#report = new WatchReport(log, alarms, { output, server: access.server }, events);
    const clock = { now: () => Date.now(), monotonic: () => performance.now() };
    const memory = new MemoryReturn(
      () => {
        // Where a cluster has many Nodes, their changes render everything, and often.
        if (node !== undefined) live.forget();
        heap.collect();
        if (node === undefined) return;
        // Compressing takes memory itself: not before the rest is returned.
        live.pack();
        this.#feed.pack();
        heap.collect();
      },
      clock.monotonic,
      () => heap.size(),
    );
    const live = new LiveRender(
      node === undefined ? config : { ...config, nodes: config.nodes.filter(({ name }) => name === node) },
    );
    this.#release =
      release === undefined ? undefined : new ReleaseEndpoints({ dir: release, node: node ?? '', withdrawn, live });
    const textOnDisk = (path: string): string | undefined => readText(output, path);
    this.#loop = new WatchLoop({
      objects: () => {
        if (!this.#feed.isComplete) return undefined;
        if (!this.#feed.hasNode) return noSuchNode(node ?? '', access.server);
        const objects = this.#feed.objects();
        return this.#release ? this.#release.objects(objects) : objects;
      },
      publisher: new Publisher({
        live: this.#release ?? live,
        tree: new LiveTree(output),
        textOnDisk,
        filesOnDisk: () => bundleIn(output),
        removals: {
          share: options.removalShare ?? removalDefaults.share,
          least: options.removalLeast ?? removalDefaults.least,
          holdMs: options.removalHold ?? removalDefaults.holdMs,
          isMeant: options.acceptRemoval === true,
          isTakenAway: (service) => this.#release?.lacks(service) === true,
        },
        metrics,
        clock,
        published: (isWhole) => {
          memory.published(isWhole);
          this.#reportRelease();
        },
      }),
      pace: { minIntervalMs: options.minInterval, maxDelayMs: options.maxDelay },
      commits: this.#recorder(),
      report: this.#report,
      now: clock.monotonic,
      // What is served shall be there at once, and costs no commit.
      ...(options.target?.isShared === false && { commitLimits: { ...commitLimits, settleMs: 0, maxDelayMs: 0 } }),
    });
  }

  #recorder(): Recorder | undefined {
    const { output, commit, push, target, releases, lease = '' } = this.#options;
    if (target)
      return new Releases({
        target,
        serials: this.#elector && !target.isShared ? serialsOfLease(this.#elector, lease) : oneAfterTheOther,
        say: (what) => this.#report.say(what),
        current: (isCurrent) => (isCurrent ? releases?.serve() : releases?.refuse('it does not publish now')),
      });
    return commit === true || push === true ? new Commits(output, push === true) : undefined;
  }

  async run(signal: AbortSignal): Promise<void> {
    if (this.#elector === undefined) this.#lead(false);
    // Waiting for leadership is not an alarm.
    else this.#alarms.clear('NOT_READY');
    const inputs = Promise.all([this.#feed.run(signal), this.#elector?.run(signal)]);
    const timer = this.#release && setInterval(() => this.#followRelease(), releaseMs);
    this.#followRelease();
    await Promise.all([this.#loop.run(), inputs.finally(() => this.#loop.finish())]).finally(() =>
      clearInterval(timer),
    );
  }

  #followRelease(): void {
    if (this.#release?.refresh()) this.#loop.recheck();
  }

  #reportRelease(): void {
    const differences = this.#release?.differences;
    if (!differences) return;
    this.#report.differences(differences);
    const { unknown, withdrawn, differing } = differences;
    for (const [state, { length }] of Object.entries({ unknown, withdrawn, differing }))
      this.#metrics.unlikeRelease.set({ state }, length);
  }

  /** @param hadOtherWriter whether another process may have written before */
  #lead(hadOtherWriter: boolean): void {
    this.#metrics.leading.set(1);
    this.#loop.lead(hadOtherWriter);
  }

  #follow(): void {
    // The new leader reports what cannot be rendered.
    this.#alarms.clear('RENDER');
    this.#alarms.clear('REMOVAL_HELD');
    this.#metrics.removalHeld.set(0);
    this.#metrics.leading.set(0);
    this.#loop.follow();
  }

  #electorOf(lease: string): Elector {
    const [namespace = '', name = ''] = lease.split('/');
    const listener = {
      gained: () => {
        this.#log.info({ lease }, `this process holds Lease ${lease} and writes ${this.#options.output}`);
        this.#lead(true);
      },
      lost: (why: string) => {
        this.#log.warn({ lease }, `this process no longer holds Lease ${lease}: ${why}`);
        this.#follow();
      },
      failed: (why: string) => this.#report.alarm('LEASE', why),
      answered: (other: string | undefined) => {
        this.#alarms.clear('LEASE');
        if (other !== undefined) this.#options.releases?.refuse(`${other} holds Lease ${lease}`);
      },
    };
    const holder = `${hostname()}_${randomUUID()}`;
    return new Elector(this.#access, { namespace, name, holder }, listener, leaseLimits, watchLimits);
  }

  #eventSender(): EventSender {
    return new EventSender(
      (notice) => {
        const uid = this.#feed.uidOf(notice.object);
        return sendEvent(this.#access, { ...notice, ...(uid && { uid }) }, new Date(), watchLimits);
      },
      (why) => this.#log.warn({}, why),
    );
  }

  readonly #listener = {
    changed: (change: ObjectChange): void => this.#loop.changed(change),
    current: ({ resource }: { resource: string }): void => {
      const alarm = `API ${resource}`;
      if (this.#alarms.clear(alarm)) this.#log.info({ alarm }, `${resource}: the API server answers again`);
      this.#metrics.away.set(this.#alarms.active().some((one) => one.startsWith('API ')) ? 1 : 0);
      if (!this.#loop.hasPublished) this.#loop.recheck();
    },
    away: ({ resource }: { resource: string }, why: string): void => {
      this.#report.alarm(`API ${resource}`, why);
      this.#metrics.away.set(1);
    },
    notWatched: ({ resource }: { resource: string }, why: string): void =>
      this.#log.warn({}, `cannot watch ${resource}, so their ranges are taken from the config: ${why}`),
  };
}
