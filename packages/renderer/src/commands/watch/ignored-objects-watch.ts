import type { Problem } from '@sluice/netfilter';
import type { Log } from '@sluice/cli/log';
import { logProblems } from './start.ts';

/** Logs ignored objects: each once, and again when it reappears. */
export class IgnoredObjectsWatch {
  readonly #log: Log;
  #logged: ReadonlySet<string | undefined> = new Set();

  constructor(log: Log) {
    this.#log = log;
  }

  now({ ignored }: { readonly ignored: readonly Problem[] }): void {
    logProblems(
      this.#log,
      ignored.filter(({ object }) => !this.#logged.has(object)),
    );
    this.#logged = new Set(ignored.map(({ object }) => object));
  }
}
