import { type Receipt, type Serving, withoutQuotes } from '@sluice/bundle';
import type { Seal } from '../../inbox/files.ts';
import type { Generation } from '../../ports/journal.ts';
import type { ProbeResult } from '../../ports/probes.ts';
import { type Account, confirmed, contentOf, releaseOf } from './account.ts';
import type { Receipts, ReportedRelease } from './receipts.ts';

/** What a receipt writer reads and calls. */
interface ReceiptWriterDependencies {
  readonly receipts: Receipts;
  readonly node: string;
  /** The active generation of the journal. */
  readonly active: () => Generation | undefined;
  /** Who serves now. */
  readonly serving: () => Serving;
  /** Who drains the node; undefined: it is not drained. */
  readonly draining: () => Receipt['draining'];
  /** The version of `sluiced`. */
  readonly sluiced: string;
  /** Called with why a receipt could not be written, or with undefined when it was. Nothing is decided by a receipt here. */
  readonly failed: (why: string | undefined) => void;
}

/** Follows the events of a change, and writes a receipt of its outcome. */
export class ReceiptWriter {
  readonly #parts: ReceiptWriterDependencies;
  #probes: readonly ProbeResult[] = [];
  #reported: ReportedRelease;

  constructor(parts: ReceiptWriterDependencies) {
    this.#parts = parts;
    this.#reported = parts.receipts.kept ?? { refused: false };
  }

  /** Takes an event of a transaction; keeps the results of the last probe round. */
  onEvent(event: string, details: Readonly<Record<string, unknown>>): void {
    if (event === 'probation' && Array.isArray(details['probes'])) this.#probes = details['probes'] as ProbeResult[];
  }

  /**
   * Writes the receipt of a change. Applied endpoint updates report nothing new about their release, which has its own digest: the last
   * report holds, and is repeated after a refusal or a new key.
   * @param seal of its release, if any
   * @param onlyEndpoints whether only its endpoints count
   */
  async report(account: Account, seal: Seal | undefined, onlyEndpoints = false): Promise<void> {
    const probes = this.#probes;
    this.#probes = [];
    const { outcome } = account;
    if (onlyEndpoints && isIn(outcome)) {
      const { refused, isOvertaken } = this.#reported;
      if (!refused && !this.#parts.receipts.isOfOtherKey) return;
      return isOvertaken || !this.#active ? undefined : this.#reportActive();
    }
    const release = releaseOf(seal, this.#parts.node);
    await this.#write(account, release, probes, this.#reportedBy(outcome, release, onlyEndpoints));
  }

  /**
   * The release in the directory waits for its wave only. If the last receipt was a refusal, which stops every wave, it is over: the active
   * release is reported again. The waiting release is not named, because the node does not run it.
   */
  async reportWaiting(): Promise<void> {
    if (this.#reported.refused) await this.#reportActive();
  }

  /** Reports the active release again where a drain began or ended, unless the last receipt says that something else became of a release. */
  async reportDrain(): Promise<void> {
    const { refused, isOvertaken, draining } = this.#reported;
    if (refused || isOvertaken || !this.#active || draining === this.#parts.draining()) return;
    await this.#reportActive();
  }

  /** The active release; undefined where it is not known, as after a rollback by an operator. */
  get #active(): ReportedRelease['isIn'] {
    const { isIn } = this.#reported;
    return isIn?.generation === this.#parts.active()?.number ? isIn : undefined;
  }

  async #reportActive(): Promise<void> {
    const is = this.#active;
    const account = confirmed('same', this.#parts.active() ?? {});
    await this.#write(account, is?.release ?? null, [], { refused: false, ...(is ? { isIn: is } : {}) });
  }

  #reportedBy(outcome: Account['outcome'], release: Receipt['release'], onlyEndpoints: boolean): ReportedRelease {
    const generation = this.#parts.active()?.number;
    if (isIn(outcome))
      return { refused: false, ...(release && generation !== undefined ? { isIn: { release, generation } } : {}) };
    const refused = outcome === 'refused';
    const isOfNone = refused && (release === null || onlyEndpoints);
    return { ...this.#reported, refused, ...(isOfNone ? {} : { isOvertaken: true }) };
  }

  /** @param kept counts once it is written: a failed write is repeated with the next receipt */
  async #write(
    account: Account,
    release: Receipt['release'],
    probes: readonly ProbeResult[],
    kept: ReportedRelease,
  ): Promise<void> {
    const { receipts, node, active, serving, sluiced, failed } = this.#parts;
    const draining = this.#parts.draining();
    const drain = draining ? { draining } : {};
    const now = active();
    const current = now ? { generation: now.number, version: now.version } : null;
    try {
      const known = { release, standing: current, serving: serving(), ...drain, sluiced };
      const { draining: _before, ...rest } = kept;
      const reported = { ...rest, ...drain };
      await receipts.write(contentOf(node, account, known, probes), reported);
      this.#reported = reported;
      failed(undefined);
    } catch (error) {
      failed(withoutQuotes(error instanceof Error ? error.message : String(error)) ?? 'for an unknown reason');
    }
  }
}

/** Whether the release of a receipt is the active generation, or a part of it is. */
const isIn = (outcome: Account['outcome']): boolean =>
  outcome === 'confirmed' || outcome === 'same' || outcome === 'partial';
