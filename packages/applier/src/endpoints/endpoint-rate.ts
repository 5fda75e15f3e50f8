import { planeOf } from '@sluice/netfilter';
import { limits } from '../limits.ts';
import type { NodeState } from '../ports/node-state.ts';
import { endpointChanges } from './endpoint-changes.ts';

/** Counts the Services that keys for endpoints have changed within the last hour: an unusual number may be a sign of a stolen key. */
export class EndpointRate {
  /** When each was changed last, by `EndpointChange.key`. */
  readonly #changedMs = new Map<string, number>();

  changed(from: NodeState, to: NodeState, nowMs: number): void {
    for (const { key } of endpointChanges(from, to)) this.#changedMs.set(key, nowMs);
  }

  /** @returns their share of all Services, 0 to 1 */
  share(state: NodeState, nowMs: number): number {
    for (const [key, atMs] of this.#changedMs) if (atMs <= nowMs - limits.hourMs) this.#changedMs.delete(key);
    if (this.#changedMs.size === 0) return 0;
    return Math.min(1, this.#changedMs.size / Math.max(1, planeOf(state).read(state).count));
  }
}
