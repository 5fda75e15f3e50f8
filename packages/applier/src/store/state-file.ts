import * as v from 'valibot';
import { readIfThere, writeDurably } from './files.ts';

/**
 * A small file of its own in the state directory, for what is good to know after a restart and no more: a `sluiced` of before passes it
 * over, and what cannot be read is as good as not there. What decides stands in the journal.
 */
export class StateFile<T> {
  readonly #path: string;
  readonly #schema: v.GenericSchema<unknown, T>;
  #last: string | undefined;

  /** @param path of the file @param schema of what it holds, as JSON */
  constructor(path: string, schema: v.GenericSchema<unknown, T>) {
    this.#path = path;
    this.#schema = schema;
  }

  read(): T | undefined {
    try {
      const text = readIfThere(this.#path);
      return text === undefined ? undefined : v.parse(this.#schema, JSON.parse(text));
    } catch {
      return undefined;
    }
  }

  /**
   * Writes it, unless it was the last that was written.
   * @throws StateError when the disk does not take it
   */
  write(value: T): void {
    const text = `${JSON.stringify(value)}\n`;
    if (text === this.#last) return;
    writeDurably(this.#path, text);
    this.#last = text;
  }
}
