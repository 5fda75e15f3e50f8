import * as v from 'valibot';
import { readIfThere, writeDurably } from './files.ts';

/**
 * A small file in the state directory, for facts that are useful after a restart but decide nothing: older versions of `sluiced` ignore it,
 * and an unreadable file counts as missing.
 */
export class StateFile<T> {
  readonly #path: string;
  readonly #schema: v.GenericSchema<unknown, T>;
  #last: string | undefined;
  /** As read or written by this process, which is the only one to write it. */
  #known: T | undefined;

  /** @param path of the file @param schema of what it holds, as JSON */
  constructor(path: string, schema: v.GenericSchema<unknown, T>) {
    this.#path = path;
    this.#schema = schema;
  }

  read(): T | undefined {
    this.#known ??= this.#onDisk();
    return this.#known;
  }

  #onDisk(): T | undefined {
    try {
      const text = readIfThere(this.#path);
      return text === undefined ? undefined : v.parse(this.#schema, JSON.parse(text));
    } catch {
      return undefined;
    }
  }

  /**
   * Writes it, unless the content is that of the last write.
   * @throws StateError when the disk takes no write; this process remembers it nevertheless
   */
  write(value: T): void {
    this.#known = value;
    const text = `${JSON.stringify(value)}\n`;
    if (text === this.#last) return;
    writeDurably(this.#path, text);
    this.#last = text;
  }
}
