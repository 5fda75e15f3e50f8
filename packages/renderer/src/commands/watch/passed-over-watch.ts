import type { Problem } from '@sluice/bundle';
import { printProblems } from '../../emit/problems.ts';

/** Tells of objects that are passed over: of each once, and again when it comes back. */
export class PassedOverWatch {
  readonly #say: (text: string) => void;
  #told: ReadonlySet<string | undefined> = new Set();

  constructor(say: (text: string) => void) {
    this.#say = say;
  }

  now({ passedOver }: { readonly passedOver: readonly Problem[] }): void {
    this.#say(printProblems(passedOver.filter(({ object }) => !this.#told.has(object))));
    this.#told = new Set(passedOver.map(({ object }) => object));
  }
}
