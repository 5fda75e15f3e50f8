import { type Receipt, withoutQuotes } from '@sluice/bundle';
import type { Seal } from '../inbox/files.ts';
import type { Generation, ProbeResult } from '../rollout/ports.ts';
import { type Account, contentOf, releaseOf } from './account.ts';
import type { Receipts, Told } from './receipts.ts';

/** Where the witness looks for what a receipt says besides how it ended. */
export interface WitnessParts {
  readonly receipts: Receipts;
  readonly node: string;
  /** What the journal says stands. */
  readonly active: () => Generation | undefined;
  /** The version of `sluiced`. */
  readonly sluiced: string;
  /** Called with why a receipt could not be written, or with undefined when it could. A receipt never decides anything here. */
  readonly failed: (why: string | undefined) => void;
}

/** Hears what a change says on its way, and writes down how it ended. */
export class Witness {
  readonly #parts: WitnessParts;
  #probes: readonly ProbeResult[] = [];
  #told: Told;

  constructor(parts: WitnessParts) {
    this.#parts = parts;
    this.#told = parts.receipts.told ?? { refused: false };
  }

  /** An event of a transaction; the answers of the last round of probes are kept. */
  hear(event: string, details: Readonly<Record<string, unknown>>): void {
    if (event === 'probation' && Array.isArray(details['probes'])) this.#probes = details['probes'] as ProbeResult[];
  }

  /**
   * A change ended. Endpoints that went in say nothing new of their release, which has a digest of its own: what was told of it holds,
   * and is told again when a refusal or another key came between.
   * @param seal of the release that it was about, where there was one
   * @param onlyEndpoints whether nothing else of it counts
   */
  async tell(account: Account, seal: Seal | undefined, onlyEndpoints = false): Promise<void> {
    const probes = this.#probes;
    this.#probes = [];
    const { outcome } = account;
    if (onlyEndpoints && (outcome === 'confirmed' || outcome === 'same')) {
      const { refused, isOvertaken } = this.#told;
      if (!refused && !this.#parts.receipts.isOfOtherKey) return;
      return isOvertaken || !this.#active ? undefined : this.#tellActive();
    }
    const release = releaseOf(seal, this.#parts.node);
    await this.#write(account, release, probes, this.#toldBy(outcome, release, onlyEndpoints));
  }

  /**
   * The release in the directory waits for its wave and for nothing else. If the last word was a refusal, which stops every wave, it is
   * over: what stands is said again. The release that waits is not what the node runs, so it is not named.
   */
  async tellWaits(): Promise<void> {
    if (this.#told.refused) await this.#tellActive();
  }

  /** The release that stands; undefined where that is not known, as of a generation that a person chose. */
  get #active(): Told['isIn'] {
    const { isIn } = this.#told;
    return isIn?.generation === this.#parts.active()?.number ? isIn : undefined;
  }

  async #tellActive(): Promise<void> {
    const isIn = this.#active;
    await this.#write({ outcome: 'same' }, isIn?.release ?? null, [], { refused: false, ...(isIn ? { isIn } : {}) });
  }

  #toldBy(outcome: Account['outcome'], release: Receipt['release'], onlyEndpoints: boolean): Told {
    const generation = this.#parts.active()?.number;
    if (outcome === 'confirmed' || outcome === 'same')
      return { refused: false, ...(release && generation !== undefined ? { isIn: { release, generation } } : {}) };
    const refused = outcome === 'refused';
    const isOfNone = refused && (release === null || onlyEndpoints);
    return { ...this.#told, refused, ...(isOfNone ? {} : { isOvertaken: true }) };
  }

  /** @param told is so once it is written: what the disk did not take is said again by whoever comes next */
  async #write(
    account: Account,
    release: Receipt['release'],
    probes: readonly ProbeResult[],
    told: Told,
  ): Promise<void> {
    const { receipts, node, active, sluiced, failed } = this.#parts;
    const now = active();
    const stands = now ? { generation: now.number, version: now.version } : null;
    try {
      await receipts.write(contentOf(node, account, { release, standing: stands, sluiced }, probes), told);
      this.#told = told;
      failed(undefined);
    } catch (error) {
      failed(withoutQuotes(error instanceof Error ? error.message : String(error)) ?? 'for no reason that was told');
    }
  }
}
