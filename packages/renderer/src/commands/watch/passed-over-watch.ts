import type { Problem } from '@sluice/bundle';
import type { Log } from '@sluice/cli/log';
import { logProblems } from './start.ts';

/** Logs ignored objects: each once, and again when it reappears. */
export class PassedOverWatch {
  readonly #log: Log;
  #told: ReadonlySet<string | undefined> = new Set();

  constructor(log: Log) {
    this.#log = log;
  }

  now({ passedOver }: { readonly passedOver: readonly Problem[] }): void {
    logProblems(
      this.#log,
      passedOver.filter(({ object }) => !this.#told.has(object)),
    );
    this.#told = new Set(passedOver.map(({ object }) => object));
  }
}
