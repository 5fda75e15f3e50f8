import type { Change } from '../../cluster/watch/feed.ts';

/** So much is remembered, however long nothing can be published: messages name 200 things, and the oldest times say how late it is. */
const pendingMax = 10_000;

/** What of a cluster's changes is not in the directory yet. */
export class Pending {
  readonly #about = new Set<string>();
  #triggeredMs: number[] = [];

  /** How many things changed. */
  get size(): number {
    return this.#about.size;
  }

  add({ about, triggeredMs }: Change): void {
    if (this.#about.size < pendingMax) this.#about.add(about);
    if (triggeredMs !== undefined && this.#triggeredMs.length < pendingMax) this.#triggeredMs.push(triggeredMs);
  }

  /** All of it, which is forgotten. */
  take(): { readonly about: readonly string[]; readonly triggeredMs: readonly number[] } {
    const taken = { about: [...this.#about], triggeredMs: this.#triggeredMs };
    this.#about.clear();
    this.#triggeredMs = [];
    return taken;
  }
}
