import type { AdjustableLog, LogSettings } from '@sluice/cli/log';
import { stateError } from '../../command-error.ts';
import type { Daemon } from '../../daemon/daemon.ts';
import { type Watcher, watchBundle } from '../../inbox/watch.ts';
import type { Heap } from '../../memory.ts';
import { Repairs } from '../../status/repairs.ts';
import { type CommonOptions, loadConfig, logSettings } from '../terminal/terminal.ts';
import { lastingAlarm } from './alarms.ts';
import { startAliveFile } from './alive-file.ts';
import { daemonOf } from './daemon.ts';
import { openNode, type RunningNode } from './node.ts';
import { startNotifier } from './notify.ts';
import { Sockets } from './sockets.ts';

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

/** `sluiced run`: watches the bundle directory until it is stopped. */
export async function run(options: CommonOptions, host: DaemonHost): Promise<number> {
  // Events and orders may come before the daemon is there.
  let daemon: Daemon | undefined;
  let watcher: Watcher | undefined;
  const config = loadConfig(options);
  const log = await host.openLog(logSettings(config));
  const node = await openNode(config, log, host.monotonicMs, () => daemon?.onEvent());
  const { session, status } = node;
  const repairs = new Repairs(config.state);
  const sockets = await Sockets.open(node, repairs, (work) => {
    if (!daemon) throw stateError('Cannot do that now: sluiced is starting', 'Nothing was changed. Try again');
    return daemon.order(work);
  });
  const notifier = startNotifier(host.environment, () => status.alive);
  const stopAlive = startAliveFile(host.environment['SLUICED_ALIVE_FILE'], () => status.alive, log);
  const changes = session.watch(host.monotonicMs, (change) => daemon?.changed(change));
  const refresh = async (): Promise<void> => {
    await sockets.refresh();
    // Not awaited: the next scan finds what happens before it is done.
    void watcher?.refresh();
  };
  daemon = daemonOf(node, { sockets, repairs, changes, heap: host.heap, ready: notifier.ready, refresh });
  watcher = await startListening(node, sockets, daemon);
  heedSignals(host, node, daemon);
  log.info({ node: config.node, bundle: config.bundle, listen: config.listen }, 'sluiced runs');
  try {
    await daemon.run();
  } finally {
    notifier.stop();
    stopAlive();
    changes.close();
    await watcher.close();
    sockets.close();
    session.close();
  }
  log.info({}, 'sluiced stopped; the rules stay in the kernel');
  return 0;
}

/** Opens the daemon to the outside: health-check node ports of before, orders, and events of the bundle directory. */
async function startListening(
  { config, log, session, status }: RunningNode,
  sockets: Sockets,
  daemon: Daemon,
): Promise<Watcher> {
  status.watches(() => daemon.sight);
  if (session.journal.active) await sockets.health.recall();
  await sockets.control.refresh();
  return watchBundle(config.bundle, {
    onEvent: () => daemon.poke(),
    failed: lastingAlarm('BUNDLE_UNWATCHED', status, log),
  });
}

function heedSignals(host: DaemonHost, { log }: RunningNode, daemon: Daemon): void {
  host.onLook(() => daemon.poke('whole'));
  host.onStop(() => {
    log.info({}, 'stopping: a release on probation is rolled back, and any other change in progress is finished');
    daemon.stop();
  });
}
