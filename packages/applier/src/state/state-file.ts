import * as v from 'valibot';
import { readIfThere, replaceFile } from './files.ts';
import type { DeclinedEndpoints, ReleasedNetworks } from '../ports/endpoints.ts';

/**
 * A small file in the state directory, for facts that are useful after a restart, and without which a node serves as well: older versions
 * of `sluiced` ignore it, and an unreadable file counts as missing.
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

  /** Holds it for this process alone. */
  remember(value: T): void {
    this.#known = value;
  }

  /**
   * Writes it, unless the content is that of the last write.
   * @throws StateError when the disk takes no write; this process remembers it nevertheless
   */
  write(value: T): void {
    this.remember(value);
    const text = `${JSON.stringify(value)}\n`;
    if (text === this.#last) return;
    replaceFile(this.#path, text);
    this.#last = text;
  }
}

const declined = v.strictObject({ schema: v.literal(1), declined: v.record(v.string(), v.string()) });
const networks = v.strictObject({ schema: v.literal(1), networks: v.array(v.string()) });

/** `declined.json` in the state directory: endpoints that failed a probe. Without it, they fail once more. */
export function declinedFile(state: string): DeclinedEndpoints {
  const file = new StateFile(`${state}/declined.json`, declined);
  const read = (): ReadonlyMap<string, string> => new Map(Object.entries(file.read()?.declined ?? {}));
  return {
    read,
    write: (all) => {
      if (all.size > 0 || read().size > 0) file.write({ schema: 1, declined: Object.fromEntries(all) });
    },
  };
}

/** `networks.json` in the state directory. Without it, endpoint keys can do less until the next release. */
export function networksFile(state: string): ReleasedNetworks {
  const file = new StateFile(`${state}/networks.json`, networks);
  return {
    read: () => file.read()?.networks ?? [],
    write: (all) => file.write({ schema: 1, networks: [...all] }),
  };
}
