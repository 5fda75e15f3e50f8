import * as v from 'valibot';
import type { DeclinedEndpoints } from '../rollout/ports.ts';
import { readIfThere, writeDurably } from '../store/files.ts';

const schema = v.strictObject({ schema: v.literal(1), declined: v.record(v.string(), v.string()) });

/**
 * `declined.json` in the state directory. A file of its own: a `sluiced` of before passes it over, and the journal must not become
 * unreadable for one. What cannot be read is as good as empty: it only spares a probe to fail once more.
 */
export class DeclinedFile implements DeclinedEndpoints {
  readonly #path: string;
  #known: ReadonlyMap<string, string> | undefined;

  constructor(state: string) {
    this.#path = `${state}/declined.json`;
  }

  read(): ReadonlyMap<string, string> {
    this.#known ??= this.#load();
    return this.#known;
  }

  #load(): ReadonlyMap<string, string> {
    try {
      const text = readIfThere(this.#path);
      return new Map(text === undefined ? [] : Object.entries(v.parse(schema, JSON.parse(text)).declined));
    } catch {
      return new Map();
    }
  }

  write(declined: ReadonlyMap<string, string>): void {
    if (declined.size === 0 && this.read().size === 0) return;
    this.#known = declined;
    writeDurably(this.#path, `${JSON.stringify({ schema: 1, declined: Object.fromEntries(declined) })}\n`);
  }
}
