import * as v from 'valibot';
import { readIfThere, writeDurably } from '../store/files.ts';
import type { DeclaredHealth } from './declared.ts';

const port = v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(65_535));
const schema = v.strictObject({
  services: v.array(
    v.strictObject({
      namespace: v.string(),
      name: v.string(),
      port,
      localEndpoints: v.pipe(v.number(), v.integer(), v.minValue(0)),
    }),
  ),
  nodePortAddresses: v.array(v.string()),
});

/**
 * What the rules that stand declare, for a process that begins while the bundle directory says something else, or nothing: rules do not
 * tell which Services a load balancer asks for. A file in the state directory.
 */
export class HealthMemory {
  readonly #path: string;
  #last: string | undefined;

  constructor(state: string) {
    this.#path = `${state}/health.json`;
  }

  /** @returns undefined where nothing is known: before the first bundle, or of a file that cannot be read */
  read(): DeclaredHealth | undefined {
    try {
      const text = readIfThere(this.#path);
      return text === undefined ? undefined : v.parse(schema, JSON.parse(text));
    } catch {
      return undefined;
    }
  }

  /** @throws StateError when the disk does not take it */
  write(declared: DeclaredHealth): void {
    const text = `${JSON.stringify(declared)}\n`;
    if (text === this.#last) return;
    writeDurably(this.#path, text);
    this.#last = text;
  }
}
