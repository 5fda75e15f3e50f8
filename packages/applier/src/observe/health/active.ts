import { type BundleFiles, serviceFile } from '@sluice/bundle';
import {
  type BundleTool,
  families,
  type ForwardingState,
  localChoicesIn,
  localChoicesOf,
  modeFacts,
} from '@sluice/netfilter';
import { type DeclaredHealth, HealthReader, type HealthService, profileOf, withCounts } from './declared.ts';
import type { StateFile } from '../../state/state-file.ts';
import type { HealthPorts } from './ports.ts';

/** What it works with. */
interface ActiveHealthDependencies {
  readonly node: string;
  readonly ports: Pick<HealthPorts, 'follow' | 'count'>;
  readonly memory: StateFile<DeclaredHealth>;
  /** Called with why the state could not be saved. */
  readonly unwritten: (error: unknown) => void;
}

/** Makes the health-check node ports follow the active generation, and saves their state for a restart. */
export class ActiveHealth {
  readonly #parts: ActiveHealthDependencies;
  readonly #reader: HealthReader;
  #active: DeclaredHealth | undefined;

  constructor(parts: ActiveHealthDependencies) {
    this.#parts = parts;
    this.#reader = new HealthReader(parts.node);
  }

  /**
   * Opens the ports of the previous process: a restart of `sluiced` must not make a load balancer remove the node, whatever the bundle
   * directory holds now.
   */
  async recall(): Promise<void> {
    this.#active = this.#parts.memory.read();
    if (this.#active) await this.#parts.ports.follow(this.#active);
  }

  /** @param files of the bundle that the kernel now holds */
  async taken(files: BundleFiles): Promise<void> {
    this.#active = this.#reader.read(files);
    await this.#parts.ports.follow(this.#active);
    this.#write(this.#active);
  }

  /**
   * @param files whose endpoints reached the active generation, without the rest of them
   * @param rules the active generation, with these endpoints
   */
  earlyEndpoints(files: BundleFiles, rules: ForwardingState): void {
    if (!this.#active) return;
    const isServed = servedBy(rules, files, this.#parts.node);
    this.#active = withCounts(this.#active, this.#reader.read(files), isServed);
    this.#parts.ports.count(this.#active);
    this.#write(this.#active);
  }

  #write(active: DeclaredHealth): void {
    try {
      this.#parts.memory.write(active);
    } catch (error) {
      this.#parts.unwritten(error);
    }
  }
}

/** The tools whose files may have endpoints, in any mode. */
const tools: readonly BundleTool[] = [
  ...new Set(Object.values(modeFacts).flatMap((mode) => families.map((family) => mode.serviceTool(family)))),
];

/**
 * Decides whether a health-check node port counts newer endpoints: whether the active rules lead packets from outside to an endpoint on this
 * node that a Service has in a newer bundle: a node must not ask for packets that it drops. Early endpoint sync may reach some Services and
 * not others, such as one whose port changes too.
 */
export function servedBy(
  rules: ForwardingState,
  files: BundleFiles,
  node: string,
): (service: Pick<HealthService, 'namespace' | 'name'>) => boolean {
  let profile: string | undefined;
  let active: ReadonlySet<string> | undefined;
  return ({ namespace, name }) => {
    // Only now: few Services are asked about, and reading YAML takes milliseconds.
    profile ??= profileOf(files, node) ?? '';
    active ??= localChoicesOf(rules);
    return tools.some((tool) => {
      const text = files.get(serviceFile(profile ?? '', namespace, name, tool)) ?? '';
      return [...localChoicesIn(tool, text, node)].some((choice) => active?.has(choice));
    });
  };
}
