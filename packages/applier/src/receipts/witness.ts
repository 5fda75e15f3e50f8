import { type Receipt, withoutQuotes } from '@sluice/bundle';
import type { Seal } from '../inbox/files.ts';
import type { Generation, ProbeResult } from '../rollout/ports.ts';
import { type Account, contentOf, releaseOf } from './account.ts';
import type { Receipts } from './receipts.ts';

/** Where the witness looks for what a receipt says besides how it ended. */
export interface WitnessParts {
  readonly receipts: Receipts;
  readonly node: string;
  /** What the journal says stands. */
  readonly standing: () => Generation | undefined;
  /** The version of `sluiced`. */
  readonly sluiced: string;
  /** Called with why a receipt could not be written, or with undefined when it could. A receipt never decides anything here. */
  readonly failed: (why: string | undefined) => void;
}

/** Hears what a change says on its way, and writes down how it ended. */
export class Witness {
  readonly #parts: WitnessParts;
  #probes: readonly ProbeResult[] = [];
  /** The release that was told to be in the kernel, and as which generation; undefined once anything else was told of one. */
  #isIn: { readonly release: Receipt['release']; readonly generation: number | undefined } | undefined;
  /** Whether the last word was that something was refused. */
  #refused = false;

  constructor(parts: WitnessParts) {
    this.#parts = parts;
  }

  /** An event of a transaction; the answers of the last round of probes are kept. */
  hear(event: string, details: Readonly<Record<string, unknown>>): void {
    if (event === 'probation' && Array.isArray(details['probes'])) this.#probes = details['probes'] as ProbeResult[];
  }

  /**
   * A change ended. Endpoints that went in say nothing new of their release, which has a digest of its own: what was told of it holds,
   * and is told again when a refusal came between.
   * @param seal of the release that it was about, where there was one
   * @param onlyEndpoints whether nothing else of it counts
   */
  async tell(account: Account, seal: Seal | undefined, onlyEndpoints = false): Promise<void> {
    const probes = this.#probes;
    this.#probes = [];
    const { outcome } = account;
    if (onlyEndpoints && (outcome === 'confirmed' || outcome === 'same')) {
      const { release = null, generation } = this.#isIn ?? {};
      if (!this.#refused || release === null || generation !== this.#parts.standing()?.number) return;
      this.#refused = false;
      return this.#write({ outcome: 'same' }, release, []);
    }
    const release = releaseOf(seal, this.#parts.node);
    this.#remember(outcome, release, onlyEndpoints);
    await this.#write(account, release, probes);
  }

  #remember(outcome: Account['outcome'], release: Receipt['release'], onlyEndpoints: boolean): void {
    this.#refused = outcome === 'refused';
    if (outcome === 'confirmed' || outcome === 'same')
      this.#isIn = { release, generation: this.#parts.standing()?.number };
    else if (!this.#refused || (release !== null && !onlyEndpoints)) this.#isIn = undefined;
  }

  async #write(account: Account, release: Receipt['release'], probes: readonly ProbeResult[]): Promise<void> {
    const { receipts, node, standing, sluiced, failed } = this.#parts;
    const now = standing();
    const stands = now ? { generation: now.number, version: now.version } : null;
    try {
      await receipts.write(contentOf(node, account, { release, standing: stands, sluiced }, probes));
      failed(undefined);
    } catch (error) {
      failed(withoutQuotes(error instanceof Error ? error.message : String(error)) ?? 'for no reason that was told');
    }
  }
}
