import type { Problem } from '@sluice/netfilter';

/** Finds newly ignored objects: each once, and again when it reappears. */
export class IgnoredObjectsWatch {
  #known: ReadonlySet<string | undefined> = new Set();

  /** Takes the ignored objects. @returns the new ones */
  now({ ignored }: { readonly ignored: readonly Problem[] }): readonly Problem[] {
    const found = ignored.filter(({ object }) => !this.#known.has(object));
    this.#known = new Set(ignored.map(({ object }) => object));
    return found;
  }
}
