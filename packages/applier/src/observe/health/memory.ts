import * as v from 'valibot';
import { StateFile } from '../../state/state-file.ts';
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
 * The health-check node ports of the active generation, for a process that starts while the bundle directory has other content, or none:
 * rules do not tell which Services have a load balancer. A file in the state directory.
 */
export class HealthMemory {
  readonly #file: StateFile<v.InferOutput<typeof schema>>;

  constructor(state: string) {
    this.#file = new StateFile(`${state}/health.json`, schema);
  }

  /** @returns undefined before the first bundle, or for a file that cannot be read */
  read(): DeclaredHealth | undefined {
    return this.#file.read();
  }

  /** @throws StateError when the disk takes no write */
  write({ services, nodePortAddresses }: DeclaredHealth): void {
    this.#file.write({ services: [...services], nodePortAddresses: [...nodePortAddresses] });
  }
}
