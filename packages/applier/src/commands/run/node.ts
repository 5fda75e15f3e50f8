import type { Log } from '@sluice/cli/log';
import type { SluicedConfig } from '../../config.ts';
import { readConntrackFill } from '../../kernel/sysctl.ts';
import { limits } from '../../limits.ts';
import type { OrderFindings } from '../../apply/order/order.ts';
import type { Report } from '../../ports/ports.ts';
import type { ReceiptWriter } from '../../observe/receipts/receipt-writer.ts';
import type { DiskJournal } from '../../state/journal.ts';
import type { NodeMemory } from '../../observe/status/metrics.ts';
import { Status } from '../../observe/status/status.ts';
import { makeReceiptWriter } from '../session/receipts.ts';
import { type NodeSession, openSession } from '../session/session.ts';
import { orderAlarm, probeAlarm } from './alarms.ts';

/** The node that a daemon runs on: its state directory and kernel, and what it tells operators. */
export interface RunningNode {
  readonly config: SluicedConfig;
  readonly log: Log;
  readonly monotonicMs: () => number;
  readonly scanIntervalMs: number;
  readonly status: Status;
  readonly session: NodeSession;
  readonly receiptWriter: ReceiptWriter;
}

/**
 * Takes the state directory and reports all events of its changes.
 * @param onEvent takes each of them, too
 */
export async function openNode(
  config: SluicedConfig,
  log: Log,
  monotonicMs: () => number,
  onEvent: Report,
): Promise<RunningNode> {
  const scanIntervalMs = config.scanIntervalSeconds * 1000;
  const status = new Status(config.node, monotonicMs, 3 * scanIntervalMs + 2 * limits.commandTimeoutMs, Date.now);
  reportPolicies(config, status, log);
  let journal: NodeSession['journal'] | undefined;
  const receiptWriter = makeReceiptWriter(
    config,
    () => journal,
    (why) => (why === undefined ? status.clear('RECEIPT') : status.raise('RECEIPT', why)),
  );
  const reportEvent = reportTo(status, log);
  const report: Report = (event, details) => {
    receiptWriter.onEvent(event, details);
    status.onEvent(event, details);
    onEvent(event, details);
    reportEvent(event, details);
  };
  const session = await openSession(config, 'change', report, probeAlarm(status, log));
  journal = session.journal;
  reportLacks(config, session, status, log);
  status.remembers(journalMemory(session.journal), Date.now);
  return { config, log, monotonicMs, scanIntervalMs, status, session, receiptWriter };
}

/** Policies that an operator should know of are in the status and, where they are weak, in the log. */
function reportPolicies({ signatures, rehearse }: SluicedConfig, status: Status, log: Log): void {
  status.signatures(signatures.policy);
  if (signatures.policy === 'none')
    log.warn({}, 'signatures: {policy: none}: bundles are accepted from every user who can write them');
  status.rehearses(rehearse);
  if (rehearse === 'off') log.warn({}, 'rehearse: off: new rules are applied without a rehearsal');
}

/** Logs the events of changes; raises the alarms of foreign rules and chains. */
function reportTo(status: Status, log: Log): Report {
  const order = orderAlarm(status, log);
  return (event, details) => {
    if (event === 'phase') return log.debug(details, event);
    if (event === 'order') return order(details as unknown as OrderFindings);
    if (event !== 'strangers') return log.info(details, event);
    if (details['chains'] === 0) return status.clear('STRANGERS');
    status.raise(
      'STRANGERS',
      `${String(details['chains'])} chains with kube-proxy's names are not Sluice's: is kube-proxy running?`,
    );
  };
}

/** What the machine lacks, for as long as this process runs. */
function reportLacks({ layout }: SluicedConfig, session: NodeSession, status: Status, log: Log): void {
  if (layout === 'tree' && !session.hasSwitch) {
    log.warn({}, withoutSwitch);
    status.raise('NO_SWITCH', withoutSwitch);
  }
  if (session.hasLostBpf) {
    log.warn({}, withoutBpf);
    status.raise('NO_BPF', withoutBpf);
  }
}

const withoutBpf =
  'the kernel has lost -m bpf: pods cannot reach themselves through their Services. Load xt_bpf, which sluiced finds within minutes; or run `sluiced cleanup` and `sluiced apply`, which make rules without it';
const withoutSwitch =
  'this machine cannot switch between two programs (needs ipset with xt_set): releases are applied table by table, without a dead-man switch';

/** The journal's figures for metrics. */
function journalMemory(journal: DiskJournal): NodeMemory {
  return {
    quarantined: () => Object.keys(journal.record.quarantined).length,
    quarantinedServices: () => journal.quarantinedServices.length,
    conntrack: readConntrackFill,
    notBeforeMs: () => journal.notBeforeMs,
    activeSinceMs: () => {
      const { active, record } = journal;
      const came = record.history.findLast(
        ({ generation, what }) => generation === active?.number && activating.has(what),
      );
      return came && Date.parse(came.at);
    },
  };
}

/** History entries after which a generation, or a revision of it, is active. */
const activating: ReadonlySet<string> = new Set(['first-run', 'confirmed', 'updated', 'chosen', 'fell-back']);
