import { withoutQuotes } from '@sluice/bundle';
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

  constructor(parts: WitnessParts) {
    this.#parts = parts;
  }

  /** An event of a transaction; the answers of the last round of probes are kept. */
  hear(event: string, details: Readonly<Record<string, unknown>>): void {
    if (event === 'probation' && Array.isArray(details['probes'])) this.#probes = details['probes'] as ProbeResult[];
  }

  /** A change ended. @param seal of the release that it was about, where there was one */
  async tell(account: Account, seal: Seal | undefined): Promise<void> {
    const { receipts, node, standing, sluiced, failed } = this.#parts;
    const now = standing();
    const stands = now ? { generation: now.number, version: now.version } : null;
    const known = { release: releaseOf(seal, node), standing: stands, sluiced };
    const probes = this.#probes;
    this.#probes = [];
    try {
      await receipts.write(contentOf(node, account, known, probes));
      failed(undefined);
    } catch (error) {
      failed(withoutQuotes(error instanceof Error ? error.message : String(error)) ?? 'for no reason that was told');
    }
  }
}
