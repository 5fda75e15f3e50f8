import { pauseAfter, paces } from '../limits.ts';
import { messageOf } from '../message.ts';
import type { DaemonParts } from './parts.ts';

type FlowParts = Pick<DaemonParts, 'monotonicMs' | 'processorMs'> & {
  readonly log: Pick<DaemonParts['log'], 'warn'>;
  readonly reconciler: Pick<DaemonParts['reconciler'], 'reconcileFlows'>;
};

/**
 * Compares the conntrack entries of UDP with the endpoints from time to time, so rarely that a node with a large table does not notice: a
 * deletion after a change may have failed, or an entry may have been made while the rules changed.
 */
export class FlowComparison {
  readonly #parts: FlowParts;
  #dueMs: number;
  #failed: string | undefined;

  constructor(parts: FlowParts) {
    this.#parts = parts;
    // A start has other work, and a change forgets the flows that it ends.
    this.#dueMs = parts.monotonicMs() + paces.flows.leastMs;
  }

  /** Compares if that is due. To be called between two changes. Never fails. */
  async look(): Promise<void> {
    const { reconciler, log, monotonicMs, processorMs = monotonicMs } = this.#parts;
    if (monotonicMs() < this.#dueMs) return;
    const beginMs = processorMs();
    try {
      const flows = (await reconciler.reconcileFlows?.()) ?? 0;
      if (flows > 0) log.warn({ flows }, 'deleted conntrack entries that lead to no endpoint of their Service');
      this.#failed = undefined;
    } catch (error) {
      const because = messageOf(error);
      if (because !== this.#failed)
        log.warn({ because }, 'cannot compare conntrack entries with the endpoints; retrying');
      this.#failed = because;
    }
    this.#dueMs = monotonicMs() + pauseAfter(processorMs() - beginMs, paces.flows);
  }
}
