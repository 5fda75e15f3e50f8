import { letGoChains } from '@sluice/bundle';
import { type DestinationStream, pino } from 'pino';
import { Daemon } from '../daemon.ts';
import { Drift } from '../drift.ts';
import { HealthReader } from '../health/declared.ts';
import { HealthMemory } from '../health/memory.ts';
import { HealthPorts } from '../health/ports.ts';
import { Inbox } from '../inbox/inbox.ts';
import { trustOf } from '../inbox/trust.ts';
import { watchBundle } from '../inbox/watch.ts';
import { interfaceAddresses } from '../kernel/facts.ts';
import { limits } from '../limits.ts';
import { formedStream, logForm } from '../log.ts';
import { type Heap, Tidier } from '../memory.ts';
import type { NodeMemory } from '../metrics.ts';
import { messageOf } from '../rollout/message.ts';
import { Status } from '../status.ts';
import { startNotifier } from './notify.ts';
import { accountOf } from '../receipts/account.ts';
import { gateOf, wavesOf } from './gate.ts';
import { witnessOf } from './receipts.ts';
import { openSession, type Session } from './session.ts';
import { type CommonOptions, loadConfig } from './terminal.ts';

/** What the daemon takes from the process that it is. */
export interface Surroundings {
  readonly heap: Heap;
  readonly monotonicMs: () => number;
  readonly stdout: DestinationStream;
  /** Whether a person reads the output. */
  readonly isTerminal: boolean;
  /** `NOTIFY_SOCKET` and `WATCHDOG_USEC` of systemd. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Calls back when the process is asked to end. */
  readonly onStop: (stop: () => void) => void;
  /** Calls back whenever somebody asks to look at the bundle directory now (SIGHUP). */
  readonly onLook: (look: () => void) => void;
}

/** `sluiced run`: watches the bundle directory until it is asked to end. */
export async function run(options: CommonOptions, surroundings: Surroundings): Promise<number> {
  const config = loadConfig(options);
  const log = pino(
    { base: null },
    formedStream(logForm(surroundings.environment, surroundings.isTerminal), surroundings.stdout),
  );
  const { monotonicMs } = surroundings;
  const scanIntervalMs = config.scanIntervalSeconds * 1000;
  const status = new Status(config.node, monotonicMs, 3 * scanIntervalMs + 2 * limits.commandTimeoutMs, Date.now);
  status.signatures(config.signatures.policy);
  if (config.signatures.policy === 'none')
    log.warn({}, 'signatures: {policy: none}: bundles are taken from whoever can write them');
  status.rehearses(config.rehearse);
  if (config.rehearse === 'off') log.warn({}, 'rehearse: off: the kernel is not asked before it gets new rules');
  let journal: Session['journal'] | undefined;
  const witness = witnessOf(
    config,
    () => journal,
    (why) => (why === undefined ? status.clear('RECEIPT') : status.raise('RECEIPT', why)),
  );
  const session = await openSession(config, 'change', (event, details) => {
    witness.hear(event, details);
    status.heard(event, details);
    if (event === 'phase') return;
    if (event !== 'strangers') return log.info(details, event);
    if (details['chains'] === 0) return status.clear('STRANGERS');
    status.raise(
      'STRANGERS',
      `${String(details['chains'])} chains with kube-proxy's names are not ours: does a kube-proxy run?`,
    );
  });
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
  const server = await status.serve(config.listen);
  const notifier = startNotifier(surroundings.environment, () => status.alive);
  const health = new HealthPorts({
    healthy: () => status.healthy,
    addresses: () => Object.values(interfaceAddresses()).flat(),
    failed: (why) => (why === undefined ? status.clear('HEALTH_PORT') : status.raise('HEALTH_PORT', why)),
  });
  const declared = new HealthReader(config.node);
  const healthMemory = new HealthMemory(config.state);
  const tidier = new Tidier(surroundings.heap, monotonicMs);
  const changes = session.watch(monotonicMs, (change) => daemon.changed(change));
  const daemon = new Daemon({
    keeper: session.keeper,
    journal: session.journal,
    inbox: new Inbox(
      config.bundle,
      config.node,
      Date.now,
      trustOf(config.bundleOwner),
      gateOf(config, () => true),
      wavesOf(config, () => true),
    ),
    status,
    log,
    machine: () => JSON.stringify(interfaceAddresses()),
    monotonicMs,
    scanIntervalMs,
    drift: new Drift(changes, monotonicMs),
    ready: notifier.ready,
    taken: async (files) => {
      const asked = declared.read(files);
      await health.follow(asked);
      try {
        healthMemory.write(asked);
      } catch (error) {
        log.warn({ because: messageOf(error) }, 'a restart will not know the health-check node ports');
      }
    },
    ended: (ending, tree, onlyEndpoints) => witness.tell(accountOf(ending), tree?.seal, onlyEndpoints),
    round: () => health.refresh(),
    idle: () => {
      letGoChains();
      tidier.idle();
      session.idle();
    },
  });
  // A load balancer must not take the node out because sluiced was started again, whatever lies in the bundle directory now.
  const remembered = session.journal.standing && healthMemory.read();
  if (remembered) await health.follow(remembered);
  const watcher = await watchBundle(config.bundle, () => daemon.poke());
  surroundings.onLook(() => daemon.poke('whole'));
  surroundings.onStop(() => {
    log.info(
      {},
      'asked to end; a release on trial is taken back first, and anything else that is in progress is finished',
    );
    daemon.stop();
  });
  log.info({ node: config.node, bundle: config.bundle, listen: config.listen }, 'sluiced runs');
  try {
    await daemon.run();
  } finally {
    notifier.stop();
    changes.close();
    await watcher.close();
    health.close();
    server.closeAllConnections();
    server.close();
    session.close();
  }
  log.info({}, 'sluiced ends; the rules stay');
  return 0;
}

const withoutBpf =
  'the kernel has lost -m bpf: pods do not reach themselves by Services. Load xt_bpf and restart sluiced; without it `sluiced cleanup` and `sluiced apply` make rules that do without';
const withoutSwitch =
  'this machine has no switch between two programs (ipset with xt_set): releases go in table by table, and the kernel holds no dead-man';

/** What metrics ask the journal for. */
function memoryOf(journal: Session['journal']): NodeMemory {
  return {
    quarantined: () => Object.keys(journal.record.quarantined).length,
    standsSinceMs: () => {
      const { standing, record } = journal;
      const came = record.history.findLast(
        ({ generation, what }) => generation === standing?.number && stands.has(what),
      );
      return came && Date.parse(came.at);
    },
  };
}

/** What of the history says that a generation, or a revision of it, came into the kernel to stay. */
const stands: ReadonlySet<string> = new Set(['first-run', 'confirmed', 'updated', 'chosen', 'fell-back']);
