import { Daemon } from '../../daemon/daemon.ts';
import type { DaemonParts } from '../../daemon/parts.ts';
import { Drift } from '../../daemon/drift.ts';
import { Inbox } from '../../inbox/inbox.ts';
import { packWhenIdle } from '../../inbox/packed.ts';
import { trustOf } from '../../inbox/trust.ts';
import type { ChangeWatch } from '../../kernel/changes/foreign-change.ts';
import { readMachine } from '../../kernel/facts.ts';
import { processorMs } from '../../kernel/processor-time.ts';
import { procTunables } from '../../kernel/sysctl.ts';
import { type Heap, Tidier } from '../../memory.ts';
import { limits } from '../../limits.ts';
import { messageOf } from '../../message.ts';
import { accountOf, releaseOf } from '../../receipts/account.ts';
import type { Repairs } from '../../status/repairs.ts';
import { gateOf, wavesOf } from '../session/gate.ts';
import { noteRelease } from '../session/note-release.ts';
import type { RunningNode } from './node.ts';
import { roundOf } from './rounds.ts';
import type { Sockets } from './sockets.ts';

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
export function daemonOf(node: RunningNode, around: Surroundings): Daemon {
  const { config, log, monotonicMs, scanIntervalMs, session, status } = node;
  const { health, localhost } = around.sockets;
  const tidier = new Tidier(around.heap, monotonicMs);
  return new Daemon({
    reconciler: session.reconciler,
    journal: session.journal,
    inbox: inboxOf(node),
    status,
    log,
    machine: () => JSON.stringify(readMachine(procTunables)),
    monotonicMs,
    processorMs,
    scanIntervalMs,
    releaseWaitMsMax: config.probation.seconds * 1000 + limits.releaseWaitMs,
    ...(config.signatures.policy === 'none' && config.lateSeconds > 0 ? { lateMsMax: config.lateSeconds * 1000 } : {}),
    drift: new Drift(around.changes, monotonicMs),
    ready: around.ready,
    taken: async (files) => {
      tidier.worked();
      await localhost.refresh();
      await health.taken(files);
    },
    earlyEndpoints: (files) => {
      void localhost.refresh();
      health.earlyEndpoints(files, session.journal.active?.state ?? { families: {} });
    },
    ended: async (ending, tree, onlyEndpoints) => {
      const account = accountOf(ending);
      noteRelease(account, onlyEndpoints ? null : releaseOf(tree?.seal, config.node), session.journal);
      await node.receiptWriter.report(account, tree?.seal, onlyEndpoints);
    },
    waits: () => node.receiptWriter.reportWaiting(),
    round: roundOf(node, around.refresh, around.gained),
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

const inboxOf = ({ config }: RunningNode): Inbox =>
  new Inbox(
    config.bundle,
    Date.now,
    trustOf(config.bundleOwner),
    gateOf(config, () => true),
    wavesOf(config, () => true),
  );

/** Keeps each drift repair in the status and in the history. */
function repairedOf({ log, status }: RunningNode, repairs: Repairs): NonNullable<DaemonParts['repaired']> {
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
