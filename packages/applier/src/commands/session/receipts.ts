import { WaveMemory } from '../../inbox/wave-memory.ts';
import { version } from '@sluice/cli';
import type { Receipt, Serving } from '@sluice/bundle';
import { planeOf } from '@sluice/netfilter';
import type { SluicedConfig } from '../../config.ts';
import { Drain } from '../../observe/health/drain.ts';
import { processesNamed } from '../../kernel/facts.ts';
import { limits } from '../../limits.ts';
import { runChildren } from '../../kernel/run.ts';
import { bootId } from '../../move/parity/read-file.ts';
import { accountOf, releaseOf } from '../../observe/receipts/account.ts';
import type { Seal } from '../../inbox/files.ts';
import { Receipts } from '../../observe/receipts/receipts.ts';
import { ReceiptWriter } from '../../observe/receipts/receipt-writer.ts';
import type { Journal } from '../../ports/journal.ts';
import type { DiskJournal } from '../../state/journal.ts';
import type { Terminal } from '../terminal/terminal.ts';

/**
 * The receipt writer of this node.
 * @param journal read when a change has ended, not before
 * @param failed called with why a receipt could not be written, or with undefined when it was
 */
export function makeReceiptWriter(
  config: SluicedConfig,
  journal: () => ServingJournal | undefined,
  failed: (why: string | undefined) => void,
): ReceiptWriter {
  const { node, state, receipts } = config;
  const { directory = `${state}/receipts` } = receipts;
  const runsBeside = withAbsenceFor(limits.kubeProxyAbsentMs, () => processesNamed('kube-proxy').length > 0);
  return new ReceiptWriter({
    receipts: new Receipts({ node, state, ...receipts, directory }, runChildren(), Date.now),
    node,
    active: () => journal()?.active,
    serving: () => servingOf(journal(), runsBeside),
    draining: () => new Drain(state, bootId(), Date.now).now?.because,
    sluiced: version,
    failed,
  });
}

type ServingJournal = Pick<Journal, 'active' | 'adoption'>;

/** Who serves this node. Generation 0 has the rules from before Sluice. */
function servingOf(journal: ServingJournal | undefined, runsBeside: () => boolean): Serving {
  const active = journal?.active;
  const mode = active && active.number > 0 ? planeOf(active.state).mode : null;
  // Its health port would be no sign: sluiced may answer there in its place.
  if (runsBeside()) return { mode, kubeProxy: 'runs' };
  return { mode, kubeProxy: journal?.adoption?.goal === 'sluice' ? 'kept-away' : 'absent' };
}

/** Whether there is one. That there is none is remembered for a while: one that starts then might have started after the receipt. */
function withAbsenceFor(ms: number, isThere: () => boolean): () => boolean {
  let absentMs = -Infinity;
  return () => {
    if (performance.now() - absentMs < ms) return false;
    if (isThere()) return true;
    absentMs = performance.now();
    return false;
  };
}

/** For a command: prints that a receipt could not be written, and changes nothing else. */
export function failedReceipt(terminal: Terminal): (why: string | undefined) => void {
  return (why) => {
    if (why !== undefined) terminal.err(`warning: cannot write the receipt: ${why}\n`);
  };
}

/** Where the end of a change is remembered. */
interface Reporting {
  readonly config: Pick<SluicedConfig, 'node' | 'state'>;
  readonly journal: DiskJournal;
  readonly writer: Pick<ReceiptWriter, 'report'>;
}

/**
 * Remembers the release of a change, for `sluiced history` and `sluiced rollback`, and that no closing of a wave takes it away; then writes
 * the receipt.
 * @param onlyEndpoints whether only the endpoints of the release count
 */
export async function reportEnding(
  ending: Parameters<typeof accountOf>[0],
  seal: Seal | undefined,
  onlyEndpoints: boolean,
  { config, journal, writer }: Reporting,
): Promise<void> {
  const account = accountOf(ending);
  const release = onlyEndpoints ? null : releaseOf(seal, config.node);
  if (['confirmed', 'same', 'partial'].includes(account.outcome)) noteRelease(release, journal, config.state);
  await writer.report(account, seal, onlyEndpoints);
}

function noteRelease(release: Receipt['release'], { active, record, notes }: DiskJournal, state: string): void {
  if (!release || !active) return;
  try {
    new WaveMemory(state).take(release.digest);
    if (notes.serialOf(active.number) !== release.serial) notes.came(active.number, release.serial, record.kept);
  } catch {
    // A disk that takes no write: the history lacks a serial. A release whose wave is closed then is found in the kernel by the next look.
  }
}
