import * as v from 'valibot';
import { StateFile } from '../store/state-file.ts';
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
  readonly #file: StateFile<v.InferOutput<typeof schema>>;

  constructor(state: string) {
    this.#file = new StateFile(`${state}/health.json`, schema);
  }

  /** @returns undefined where nothing is known: before the first bundle, or of a file that cannot be read */
  read(): DeclaredHealth | undefined {
    return this.#file.read();
  }

  /** @throws StateError when the disk does not take it */
  write({ services, nodePortAddresses }: DeclaredHealth): void {
    this.#file.write({ services: [...services], nodePortAddresses: [...nodePortAddresses] });
  }
}
