import { repackChains } from '@sluice/netfilter';
import type { AdjustableLog, LogSettings } from '@sluice/cli/log';
import { Daemon } from '../../daemon/daemon.ts';
import type { DaemonLog } from '../../daemon/reports.ts';
import { Drift } from '../../daemon/drift.ts';
import { HealthMemory } from '../../health/memory.ts';
import { HealthPorts } from '../../health/ports.ts';
import { ActiveHealth } from '../../health/active.ts';
import { StatusPort } from '../../health/status-port.ts';
import { Inbox } from '../../inbox/inbox.ts';
import { trustOf } from '../../inbox/trust.ts';
import { watchBundle } from '../../inbox/watch.ts';
import { interfaceAddresses, readMachine } from '../../kernel/facts.ts';
import { processorMs } from '../../kernel/processor-time.ts';
import { procTunables } from '../../kernel/sysctl.ts';
import { limits } from '../../limits.ts';
import { type Heap, Tidier } from '../../memory.ts';
import type { NodeMemory } from '../../status/metrics.ts';
import type { OrderFindings } from '../../order/order.ts';
import { printTaking, printUnread } from '../../order/print-order.ts';
import { messageOf } from '../../message.ts';
import { Repairs } from '../../status/repairs.ts';
import { Status } from '../../status/status.ts';
import { startNotifier } from './notify.ts';
import { stateError } from '../../command-error.ts';
import { controlOf } from '../../control/serve.ts';
import { ControlSocket } from '../../control/socket.ts';
import { accountOf, releaseOf } from '../../receipts/account.ts';
import { gateOf, wavesOf } from '../session/gate.ts';
import { noteRelease } from '../session/note-release.ts';
import { receiptWriterOf } from '../session/receipts.ts';
import { openSession, type NodeSession } from '../session/session.ts';
import { type CommonOptions, loadConfig, logSettings } from '../terminal/terminal.ts';

/** What the process provides to the daemon. */
export interface DaemonHost {
  readonly heap: Heap;
  readonly monotonicMs: () => number;
  /** Opens the log with the settings of the config. */
  readonly openLog: (settings: LogSettings) => Promise<AdjustableLog>;
  /** `NOTIFY_SOCKET` and `WATCHDOG_USEC` of systemd. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Registers the callback for a request to stop. */
  readonly onStop: (stop: () => void) => void;
  /** Registers the callback for a request to check the bundle directory now (SIGHUP). */
  readonly onLook: (look: () => void) => void;
}

/** `sluiced run`: watches the bundle directory until it is stopped. */
export async function run(options: CommonOptions, host: DaemonHost): Promise<number> {
  const config = loadConfig(options);
  const log = await host.openLog(logSettings(config));
  const { monotonicMs } = host;
  const scanIntervalMs = config.scanIntervalSeconds * 1000;
  const status = new Status(config.node, monotonicMs, 3 * scanIntervalMs + 2 * limits.commandTimeoutMs, Date.now);
  status.signatures(config.signatures.policy);
  if (config.signatures.policy === 'none')
    log.warn({}, 'signatures: {policy: none}: bundles are accepted from every user who can write them');
  status.rehearses(config.rehearse);
  if (config.rehearse === 'off') log.warn({}, 'rehearse: off: new rules are applied without a rehearsal');
  const order = orderAlarm(status, log);
  let journal: NodeSession['journal'] | undefined;
  let daemon: Daemon | undefined;
  const receiptWriter = receiptWriterOf(
    config,
    () => journal,
    (why) => (why === undefined ? status.clear('RECEIPT') : status.raise('RECEIPT', why)),
  );
  const session = await openSession(
    config,
    'change',
    (event, details) => {
      receiptWriter.onEvent(event, details);
      status.onEvent(event, details);
      daemon?.onEvent();
      if (event === 'phase') return log.debug(details, event);
      if (event === 'order') return order(details as unknown as OrderFindings);
      if (event !== 'strangers') return log.info(details, event);
      if (details['chains'] === 0) return status.clear('STRANGERS');
      status.raise(
        'STRANGERS',
        `${String(details['chains'])} chains with kube-proxy's names are not Sluice's: is kube-proxy running?`,
      );
    },
    probeAlarm(status, log),
  );
  journal = session.journal;
  if (config.layout === 'tree' && !session.hasSwitch) {
    log.warn({}, withoutSwitch);
    status.raise('NO_SWITCH', withoutSwitch);
  }
  if (session.hasLostBpf) {
    log.warn({}, withoutBpf);
    status.raise('NO_BPF', withoutBpf);
  }
  status.remembers(memoryOf(session.journal), Date.now);
  const alarm = (code: MachineAlarm): ((why: string | undefined) => void) => lastingAlarm(code, status, log);
  const port = new StatusPort(config.listen, {
    answer: (request, response) => void status.answer(request, response),
    failed: alarm('STATUS_PORT'),
  });
  await port.refresh();
  const notifier = startNotifier(host.environment, () => status.alive);
  const ports = new HealthPorts({
    healthy: () => status.healthy,
    addresses: () => Object.values(interfaceAddresses()).flat(),
    failed: alarm('HEALTH_PORT'),
  });
  const health = new ActiveHealth({
    node: config.node,
    ports,
    memory: new HealthMemory(config.state),
    unwritten: (error) =>
      log.warn({ because: messageOf(error) }, 'cannot save the health-check node ports for the next start'),
  });
  const repairs = new Repairs(config.state);
  const backend = alarm('BACKEND_DOUBTFUL');
  let storesDueMs = -Infinity;
  const tidier = new Tidier(host.heap, monotonicMs);
  const changes = session.watch(monotonicMs, (change) => daemon?.changed(change));
  const control = new ControlSocket(
    config.state,
    controlOf({
      ...session,
      repairs: () => repairs.read(),
      report: () => status.report(),
      order: (work) => {
        if (!daemon) throw stateError('Cannot do that now: sluiced is starting', 'Nothing was changed. Try again');
        return daemon.order(work);
      },
      ended: (account) => receiptWriter.report(account, undefined),
    }),
    alarm('CONTROL_SOCKET'),
  );
  daemon = new Daemon({
    reconciler: session.reconciler,
    journal: session.journal,
    inbox: new Inbox(
      config.bundle,
      Date.now,
      trustOf(config.bundleOwner),
      gateOf(config, () => true),
      wavesOf(config, () => true),
    ),
    status,
    log,
    machine: () => JSON.stringify(readMachine(procTunables)),
    monotonicMs,
    processorMs,
    scanIntervalMs,
    drift: new Drift(changes, monotonicMs),
    ready: notifier.ready,
    taken: (files) => health.taken(files),
    earlyEndpoints: (files) => health.earlyEndpoints(files, session.journal.active?.state ?? { families: {} }),
    ended: async (ending, tree, onlyEndpoints) => {
      const account = accountOf(ending);
      noteRelease(account, onlyEndpoints ? null : releaseOf(tree?.seal, config.node), session.journal);
      await receiptWriter.report(account, tree?.seal, onlyEndpoints);
    },
    waits: () => receiptWriter.reportWaiting(),
    round: async () => {
      const share = session.reconciler.endpointShare;
      if (share > config.endpoints.alarmShare) status.raise('ENDPOINT_CHANGES_MANY', manyChanges(share));
      else status.clear('ENDPOINT_CHANGES_MANY');
      if (monotonicMs() >= storesDueMs) {
        const doubt = await session.storeDoubt();
        backend(doubt && `${doubt.message}. ${doubt.hint}`);
        storesDueMs = monotonicMs() + limits.storeDoubtMs;
      }
      await control.refresh();
      await port.refresh();
      await ports.refresh();
      // Not awaited: the next scan finds what happens before it is done.
      void watcher.refresh();
    },
    repaired: (repair) => {
      const one = { ...repair, at: new Date().toISOString() };
      status.repaired(one);
      try {
        repairs.add(one);
      } catch (error) {
        log.warn({ because: messageOf(error) }, 'cannot add this repair to the history');
      }
    },
    idle: () => {
      repackChains();
      tidier.idle();
      session.idle();
    },
  });
  status.watches(() => daemon.unseen);
  if (session.journal.active) await health.recall();
  await control.refresh();
  const watcher = await watchBundle(config.bundle, {
    onEvent: () => daemon.poke(),
    failed: alarm('BUNDLE_UNWATCHED'),
  });
  host.onLook(() => daemon.poke('whole'));
  host.onStop(() => {
    log.info({}, 'stopping: a release on probation is rolled back, and any other change in progress is finished');
    daemon.stop();
  });
  log.info({ node: config.node, bundle: config.bundle, listen: config.listen }, 'sluiced runs');
  try {
    await daemon.run();
  } finally {
    notifier.stop();
    changes.close();
    await watcher.close();
    ports.close();
    port.close();
    control.close();
    session.close();
  }
  log.info({}, 'sluiced stopped; the rules stay in the kernel');
  return 0;
}

/** Keeps the alarm of foreign rules before our jumps raised while there are any; logs changes only. */
function orderAlarm(status: Status, log: DaemonLog): (order: OrderFindings) => void {
  const alarm = lastingAlarm('FOREIGN_RULE_FIRST', status, log);
  let noted: string | undefined;
  return (order) => {
    alarm(printTaking(order));
    const note = printUnread(order);
    status.note('FOREIGN_RULE_UNREAD', note);
    if (note !== undefined && note !== noted) log.info({ note: 'FOREIGN_RULE_UNREAD' }, note);
    noted = note;
  };
}

/** Alarms of resources of the machine that may be missing for a while. */
type MachineAlarm =
  | 'STATUS_PORT'
  | 'HEALTH_PORT'
  | 'BUNDLE_UNWATCHED'
  | 'FOREIGN_RULE_FIRST'
  | 'BACKEND_DOUBTFUL'
  | 'CONTROL_SOCKET';

/** Raises an alarm while a resource is missing; logs it as well, because the status port may be what is missing. */
function lastingAlarm(code: MachineAlarm, status: Status, log: DaemonLog): (why: string | undefined) => void {
  let last: string | undefined;
  return (why) => {
    if (why === last) return;
    last = why;
    if (why === undefined) {
      status.clear(code);
      log.info({ alarm: code }, 'alarm cleared');
    } else {
      status.raise(code, why);
      log.warn({ alarm: code }, why);
    }
  };
}

/** Logs the first failing probe once; keeps the alarm raised while a probe fails. */
function probeAlarm(status: Status, log: DaemonLog): (why: string | undefined) => void {
  const code = 'PROBE_FAILED_AFTER_UPDATE';
  let isRaised = false;
  return (why) => {
    if (why === undefined) {
      status.clear(code);
      log.info({ alarm: code }, 'the probes pass again');
    } else {
      status.raise(code, why);
      if (!isRaised) log.warn({ alarm: code }, why);
    }
    isRaised = why !== undefined;
  };
}

const manyChanges = (share: number): string =>
  `endpoint keys changed the endpoints of ${Math.round(share * 100)} % of all Services within an hour: more than endpoints.alarmShare`;

const withoutBpf =
  'the kernel has lost -m bpf: pods cannot reach themselves through their Services. Load xt_bpf and restart sluiced; or run `sluiced cleanup` and `sluiced apply`, which make rules without it';
const withoutSwitch =
  'this machine cannot switch between two programs (needs ipset with xt_set): releases are applied table by table, without a dead-man switch';

/** The journal's figures for metrics. */
function memoryOf(journal: NodeSession['journal']): NodeMemory {
  return {
    quarantined: () => Object.keys(journal.record.quarantined).length,
    notBeforeMs: () => journal.notBeforeMs,
    standsSinceMs: () => {
      const { active, record } = journal;
      const came = record.history.findLast(({ generation, what }) => generation === active?.number && stands.has(what));
      return came && Date.parse(came.at);
    },
  };
}

/** History entries after which a generation, or a revision of it, is active. */
const stands: ReadonlySet<string> = new Set(['first-run', 'confirmed', 'updated', 'chosen', 'fell-back']);
