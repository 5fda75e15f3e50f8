import * as v from 'valibot';
import type { ReleasedNetworks } from '../ports/endpoints.ts';
import { StateFile } from './state-file.ts';

const schema = v.strictObject({ schema: v.literal(1), networks: v.array(v.string()) });

/** `networks.json` in the state directory. Without it, endpoint keys can do less until the next release. */
export class NetworksFile implements ReleasedNetworks {
  readonly #file: StateFile<v.InferOutput<typeof schema>>;
  #known: readonly string[] | undefined;

  constructor(state: string) {
    this.#file = new StateFile(`${state}/networks.json`, schema);
  }

  read(): readonly string[] {
    this.#known ??= this.#file.read()?.networks ?? [];
    return this.#known;
  }

  write(networks: readonly string[]): void {
    this.#known = networks;
    this.#file.write({ schema: 1, networks: [...networks] });
  }
}
