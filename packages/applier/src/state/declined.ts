import * as v from 'valibot';
import type { DeclinedEndpoints } from '../ports/endpoints.ts';
import { StateFile } from './state-file.ts';

const schema = v.strictObject({ schema: v.literal(1), declined: v.record(v.string(), v.string()) });

/** `declined.json` in the state directory: endpoints that failed a probe. Without it, they fail once more. */
export class DeclinedFile implements DeclinedEndpoints {
  readonly #file: StateFile<v.InferOutput<typeof schema>>;
  #known: ReadonlyMap<string, string> | undefined;

  constructor(state: string) {
    this.#file = new StateFile(`${state}/declined.json`, schema);
  }

  read(): ReadonlyMap<string, string> {
    this.#known ??= new Map(Object.entries(this.#file.read()?.declined ?? {}));
    return this.#known;
  }

  write(declined: ReadonlyMap<string, string>): void {
    if (declined.size === 0 && this.read().size === 0) return;
    this.#known = declined;
    this.#file.write({ schema: 1, declined: Object.fromEntries(declined) });
  }
}
