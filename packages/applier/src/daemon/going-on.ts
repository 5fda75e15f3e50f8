import type { Tree } from '../inbox/files.ts';
import type { Arrival, ArrivedBundle } from '../inbox/inbox.ts';
import { messageOf } from '../message.ts';
import type { Outcome } from '../ports/outcome.ts';
import type { DaemonDependencies } from './dependencies.ts';

/** Live endpoints of a release that go on while the one in the directory may not be applied, and what is said of live endpoints. */
export class GoingOn {
  readonly #daemon: DaemonDependencies;
  /** What is in, or was refused. */
  #last: Tree | undefined;
  #note: string | undefined;

  constructor(daemon: DaemonDependencies) {
    this.#daemon = daemon;
  }

  /**
   * Puts these endpoints in, if there are any. Alarms and receipts are about the release in the directory, and stay.
   * @param changing `Bundles.changing`
   * @returns when to look again: a last endpoint is removed late
   */
  async look(
    { note, meanwhile }: Arrival,
    changing: (work: () => Promise<Outcome>) => Promise<Outcome>,
  ): Promise<number> {
    const { status, log, journal } = this.#daemon;
    status.note('LIVE_ENDPOINTS', note);
    if (note !== undefined && note !== this.#note) log.warn({ note: 'LIVE_ENDPOINTS' }, note);
    this.#note = note;
    if (!meanwhile || meanwhile.tree === this.#last || journal.halted !== undefined) return Infinity;
    return this.#put(meanwhile, changing);
  }

  async #put(
    { tree, live }: ArrivedBundle,
    changing: (work: () => Promise<Outcome>) => Promise<Outcome>,
  ): Promise<number> {
    const { reconciler, journal, status, log, drift, monotonicMs } = this.#daemon;
    const startMs = monotonicMs();
    try {
      const outcome = await changing(() => reconciler.put(tree.files, false, undefined, false, live ?? {}));
      const waitsMs = 'waitsMs' in outcome ? outcome.waitsMs : undefined;
      this.#last = waitsMs === undefined ? tree : undefined;
      status.activate(journal.active);
      if (outcome.kind !== 'same' && outcome.kind !== 'refused') {
        drift?.saw();
        status.ended(outcome, (monotonicMs() - startMs) / 1000);
        log.info({ outcome: outcome.kind }, 'live endpoints changed while a release waits');
      }
      return waitsMs === undefined ? Infinity : monotonicMs() + waitsMs;
    } catch (error) {
      drift?.doubted();
      log.error({ because: messageOf(error) }, 'cannot put in live endpoints while a release waits; retrying');
      return Infinity;
    }
  }
}
