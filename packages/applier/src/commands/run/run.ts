import { writeFileSync } from 'node:fs';
import { uptime } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { ineligibilityOf } from '@sluice/bundle';
import type { AdjustableLog, LogSettings } from '@sluice/cli/log';
import { execa } from 'execa';
import { stateError } from '../../command-error.ts';
import { Daemon } from '../../daemon/daemon.ts';
import { Drift } from '../../daemon/drift.ts';
import type { DaemonDependencies } from '../../daemon/dependencies.ts';
import type { DaemonLog } from '../../daemon/reports.ts';
import type { Drain } from '../../observe/health/drain.ts';
import { Inbox } from '../../inbox/inbox.ts';
import { packWhenIdle } from '../../inbox/packed.ts';
import { trustOf } from '../../inbox/trust.ts';
import { watchBundle, type Watcher } from '../../inbox/watch.ts';
import type { ChangeWatch } from '../../kernel/changes/foreign-change.ts';
import { type Run, toolEnvironment } from '../../kernel/command.ts';
import { readMachine } from '../../kernel/facts.ts';
import { processorMs } from '../../kernel/processor-time.ts';
import { runChildren } from '../../kernel/run.ts';
import { procTunables } from '../../kernel/sysctl.ts';
import { findTool } from '../../kernel/tools.ts';
import { limits } from '../../limits.ts';
import { type Heap, Tidier } from '../../memory.ts';
import { messageOf } from '../../message.ts';
import { Repairs } from '../../observe/status/repairs.ts';
import { makeReleaseGate, makeWaveGate, withLive } from '../session/gate.ts';
import { reportEnding } from '../session/receipts.ts';
import { type CommonOptions, loadConfig, logSettings } from '../terminal/terminal.ts';
import { lastingAlarm } from './alarms.ts';
import { openNode, type RunningNode } from './node.ts';
import { roundOf } from './rounds.ts';
import { openSockets, type Sockets } from './sockets.ts';

/** What surrounds the daemon of a node. */
interface Surroundings {
  readonly sockets: Sockets;
  /** Drift repairs, for `sluiced history`. */
  readonly repairs: Repairs;
  /** Changes of the kernel by other programs. */
  readonly changes: ChangeWatch;
  readonly heap: Heap;
  readonly ready: () => void;
  /** Once per round: retries what could not be opened. */
  readonly refresh: () => Promise<void>;
  /** The machine has tools by now that were missing at the start. */
  readonly gained: () => void;
}

/** The daemon of a node, before it runs. */
function makeDaemon(node: RunningNode, around: Surroundings): Daemon {
  const { config, log, monotonicMs, scanIntervalMs, session, status } = node;
  const { drain, health, localhost } = around.sockets;
  const round = roundOf(node, around.refresh, around.gained);
  const tidier = new Tidier(around.heap, monotonicMs);
  const lateMs = config.lateSeconds * 1000;
  return new Daemon({
    reconciler: session.reconciler,
    journal: session.journal,
    inbox: withLive(openInbox(node), config, session, monotonicMs),
    status,
    log,
    machine: () => JSON.stringify(readMachine(procTunables)),
    monotonicMs,
    processorMs,
    scanIntervalMs,
    releaseWaitMsMax: config.probation.seconds * 1000 + limits.releaseWaitMs,
    ...(config.signatures.policy === 'none' && lateMs > 0 ? { lateMsMax: lateMs } : {}),
    ...(lateMs > 0 ? { liveLateMsMax: lateMs } : {}),
    drift: new Drift(around.changes, monotonicMs),
    ready: around.ready,
    seen: (files) => {
      drain.ineligible = ineligibilityOf(files, config.node);
    },
    taken: async (files) => {
      tidier.worked();
      await localhost.refresh();
      await health.taken(files);
    },
    leaves: (frontends) => around.sockets.vips.leaves(frontends),
    earlyEndpoints: (files) => {
      void localhost.refresh();
      health.earlyEndpoints(files, session.journal.active?.state ?? { families: {} });
    },
    ended: (ending, tree, onlyEndpoints = false) =>
      reportEnding(ending, tree?.seal, onlyEndpoints, { config, journal: session.journal, writer: node.receiptWriter }),
    waits: () => node.receiptWriter.reportWaiting(),
    round: async () => {
      await round();
      await node.receiptWriter.reportDrain();
    },
    repaired: repairedOf(node, around.repairs),
    idle: () => {
      packWhenIdle();
      if (session.journal.active !== undefined) around.heap.settle();
      tidier.idle();
      session.idle();
      status.protects(session.nftProtection());
    },
  });
}

const openInbox = ({ config }: RunningNode): Inbox =>
  new Inbox(
    config.bundle,
    Date.now,
    trustOf(config.bundleOwner, config.source?.directory),
    makeReleaseGate(config, () => true),
    makeWaveGate(config, () => true),
  );

/** Keeps each drift repair in the status and in the history. */
function repairedOf({ log, status }: RunningNode, repairs: Repairs): NonNullable<DaemonDependencies['repaired']> {
  return (repair) => {
    const one = { ...repair, at: new Date().toISOString() };
    status.repaired(one);
    try {
      repairs.add(one);
    } catch (error) {
      log.warn({ because: messageOf(error) }, 'cannot add this repair to the history');
    }
  };
}

/** Whether systemd shuts the machine down: then load balancers must send elsewhere before the node is gone. Else a restart needs no drain. */
async function isShutdown(start: Run): Promise<boolean> {
  const file = findTool('systemctl');
  return file !== undefined && (await start({ file, args: ['is-system-running'] })).stdout.trim() === 'stopping';
}

/**
 * Drains a machine that shuts down, for so long that load balancers know.
 * @param seconds of the config; 0: not at all
 */
export async function drainBeforeShutdown(
  seconds: number,
  drain: Pick<Drain, 'begin'> | undefined,
  start: Run,
  log: Pick<DaemonLog, 'info' | 'warn'>,
): Promise<void> {
  if (seconds === 0 || !drain || !(await isShutdown(start))) return;
  try {
    drain.begin(null, 'shutdown');
  } catch (error) {
    // It is drained nonetheless: only a restart would not know.
    log.warn({ because: messageOf(error) }, 'cannot save that the node is drained');
  }
  log.info({ seconds }, 'the machine shuts down: its ports for load balancers answer 503 before sluiced stops');
  await sleep(seconds * 1000);
}

/** What the process provides to the daemon. */
interface DaemonHost {
  readonly heap: Heap;
  readonly monotonicMs: () => number;
  /** Opens the log with the settings of the config. */
  readonly openLog: (settings: LogSettings) => Promise<AdjustableLog>;
  /** `NOTIFY_SOCKET` and `WATCHDOG_USEC` of systemd; `SLUICED_ALIVE_FILE` of a pod. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Registers the callback for a request to stop. */
  readonly onStop: (stop: () => void) => void;
  /** Registers the callback for a request to check the bundle directory now (SIGHUP). */
  readonly onLook: (look: () => void) => void;
}

/** The daemon of now: events, orders and signals may come before there is one. */
interface Current {
  daemon?: Daemon;
  sockets?: Sockets;
  isStopped: boolean;
}

/**
 * `sluiced run`: watches the bundle directory until it is stopped. Where tools come back that were missing when it began, it begins again, as
 * after a restart: the rules stay, and ports are closed for a moment.
 */
export async function run(options: CommonOptions, host: DaemonHost): Promise<number> {
  const config = loadConfig(options);
  const log = await host.openLog(logSettings(config));
  const current: Current = { isStopped: false };
  heedSignals(host, log, current, config.drain.shutdownSeconds);
  do {
    const node = await openNode(config, log, host.monotonicMs, (event, details) => {
      current.daemon?.onEvent(event, details);
      void current.sockets?.localhost.refresh();
      current.sockets?.vips.onEvent(event, details);
    });
    if ((await runUntilEnd(node, host, current)) === 'stopped') break;
    log.info({}, 'what was missing when sluiced started is there now: it begins again');
  } while (!current.isStopped);
  log.info({}, 'sluiced stopped; the rules stay in the kernel');
  return 0;
}

/** @returns `gained`: the machine has tools by now that were missing at the start */
async function runUntilEnd(node: RunningNode, host: DaemonHost, current: Current): Promise<'stopped' | 'gained'> {
  const { config, log, session, status } = node;
  let watcher: Watcher | undefined;
  let hasGained = false;
  const repairs = new Repairs(config.state);
  const sockets = await openSockets(node, repairs, {
    order: (work) => {
      if (!current.daemon)
        throw stateError('Cannot do that now: sluiced is starting', 'Nothing was changed. Try again');
      return current.daemon.order(work);
    },
    look: () => current.daemon?.poke(),
  });
  current.sockets = sockets;
  const notifier = startNotifier(host.environment, () => status.alive);
  const stopAlive = startAliveFile(host.environment['SLUICED_ALIVE_FILE'], () => status.alive, log);
  const changes = session.watch(host.monotonicMs, (change) => current.daemon?.changed(change));
  const refresh = async (): Promise<void> => {
    await sockets.refresh();
    // Not awaited: the next scan finds what happens before it is done.
    void watcher?.refresh();
  };
  const gained = (): void => {
    hasGained = true;
    current.daemon?.stop();
  };
  const around = { sockets, repairs, changes, heap: host.heap, ready: notifier.ready, refresh, gained };
  const daemon = makeDaemon(node, around);
  current.daemon = daemon;
  if (current.isStopped) daemon.stop();
  watcher = await startListening(node, sockets, daemon);
  log.info({ node: config.node, bundle: config.bundle, listen: config.listen }, 'sluiced runs');
  try {
    await daemon.run();
  } finally {
    delete current.daemon;
    delete current.sockets;
    notifier.stop();
    stopAlive();
    changes.close();
    await watcher.close();
    sockets.close();
    session.close();
  }
  return hasGained ? 'gained' : 'stopped';
}

/** Opens the daemon to the outside: health-check node ports of before, node ports on ::1, orders, and events of the bundle directory. */
async function startListening(
  { config, log, session, status }: RunningNode,
  sockets: Sockets,
  daemon: Daemon,
): Promise<Watcher> {
  status.watches({ sight: () => daemon.sight, slowTool: () => session.slowTool, drain: sockets.drain });
  sockets.announce(() => daemon.doubt);
  if (session.journal.active) await sockets.health.recall();
  await sockets.localhost.refresh();
  await sockets.control.refresh();
  const onEvent = (): void => daemon.poke();
  const bundle = await watchBundle(config.bundle, { onEvent, failed: lastingAlarm('BUNDLE_UNWATCHED', status, log) });
  if (!config.endpoints.live) return bundle;
  const failed = (why: string | undefined): void => {
    if (why !== undefined) log.warn({ because: why }, 'the directory of live endpoints is scanned alone');
  };
  const live = await watchBundle(config.endpoints.live.directory, { onEvent, failed });
  return {
    refresh: async () => void (await Promise.all([bundle.refresh(), live.refresh()])),
    close: async () => void (await Promise.all([bundle.close(), live.close()])),
  };
}

/** @param drainSeconds how long a machine that shuts down is drained first */
function heedSignals(host: DaemonHost, log: AdjustableLog, current: Current, drainSeconds: number): void {
  host.onLook(() => {
    log.info({}, 'asked to look: the bundle directory is read again, as a whole; a new sluiced.yaml needs a restart');
    current.daemon?.poke('whole');
  });
  const stop = (): void => {
    log.info({}, 'stopping: a release on probation is rolled back, and any other change in progress is finished');
    current.isStopped = true;
    current.daemon?.stop();
  };
  host.onStop(() => void drainBeforeShutdown(drainSeconds, current.sockets?.drain, runChildren(), log).finally(stop));
}

/** Reports the state of the daemon to systemd. */
interface Notifier {
  readonly ready: () => void;
  readonly stop: () => void;
}

/**
 * Starts `systemd-notify` for each message, because Node has no datagram sockets in the file system; the unit has `NotifyAccess=all`.
 * @param environment with `NOTIFY_SOCKET` under systemd
 * @param alive checked before each watchdog message
 */
function startNotifier(environment: Readonly<Record<string, string | undefined>>, alive: () => boolean): Notifier {
  const socket = environment['NOTIFY_SOCKET'];
  const file = findTool('systemd-notify');
  if (socket === undefined || file === undefined) return { ready: () => undefined, stop: () => undefined };
  const say = (word: string): void => {
    const env = { ...toolEnvironment, NOTIFY_SOCKET: socket };
    void execa(file, [word], { env, extendEnv: false, reject: false, timeout: limits.commandKillDelayMs });
  };
  const watchdogMs = Number(environment['WATCHDOG_USEC'] ?? 0) / 1000;
  const timer = watchdogMs > 0 ? setInterval(() => alive() && say('WATCHDOG=1'), watchdogMs / 2) : undefined;
  return { ready: () => say('READY=1'), stop: () => clearInterval(timer) };
}

/**
 * While the main loop makes progress, writes the seconds since the machine's start to a file every 10 s: a probe of the kubelet compares
 * them with /proc/uptime, without a port that another program could take, and without a process of Node.
 * @param path undefined: nothing is written
 * @param alive checked before each write
 * @returns ends it
 */
export function startAliveFile(
  path: string | undefined,
  alive: () => boolean,
  log: Pick<DaemonLog, 'warn'>,
): () => void {
  if (path === undefined) return () => undefined;
  let failed: string | undefined;
  const write = (): void => {
    if (!alive()) return;
    try {
      writeFileSync(path, `${Math.floor(uptime())}\n`);
      failed = undefined;
    } catch (error) {
      const because = messageOf(error);
      if (because !== failed) log.warn({ because, path }, 'cannot write that sluiced is alive; retrying');
      failed = because;
    }
  };
  write();
  const timer = setInterval(write, limits.aliveMs);
  return () => clearInterval(timer);
}
