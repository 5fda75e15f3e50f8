import type { ObjectChange } from '../../cluster/watch/feed.ts';

/** Bound of memory while nothing can be published: messages name 200 objects, and the oldest times suffice for the latency. */
const pendingMax = 10_000;

/** The changes of the cluster that are not published yet. */
export class Pending {
  readonly #about = new Set<string>();
  #triggeredMs: number[] = [];

  /** The number of changed objects. */
  get size(): number {
    return this.#about.size;
  }

  add({ about, triggeredMs }: ObjectChange): void {
    if (this.#about.size < pendingMax) this.#about.add(about);
    if (triggeredMs !== undefined && this.#triggeredMs.length < pendingMax) this.#triggeredMs.push(triggeredMs);
  }

  /** Returns and clears all pending changes. */
  take(): { readonly about: readonly string[]; readonly triggeredMs: readonly number[] } {
    const taken = { about: [...this.#about], triggeredMs: this.#triggeredMs };
    this.#about.clear();
    this.#triggeredMs = [];
    return taken;
  }
}
