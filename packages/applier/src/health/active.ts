import type { BundleFiles } from '@sluice/bundle';
import { type DeclaredHealth, HealthReader, withCounts } from './declared.ts';
import type { HealthMemory } from './memory.ts';
import type { HealthPorts } from './ports.ts';
import { type Rules, servedBy } from './served.ts';

/** What it works with. */
export interface ActiveHealthParts {
  readonly node: string;
  readonly ports: Pick<HealthPorts, 'follow' | 'count'>;
  readonly memory: HealthMemory;
  /** What the ports say now cannot be written down. */
  readonly unwritten: (error: unknown) => void;
}

/** Has the health-check node ports say what the rules that stand do, and remembers it for a restart. */
export class ActiveHealth {
  readonly #parts: ActiveHealthParts;
  readonly #reader: HealthReader;
  #active: DeclaredHealth | undefined;

  constructor(parts: ActiveHealthParts) {
    this.#parts = parts;
    this.#reader = new HealthReader(parts.node);
  }

  /**
   * Opens what a process before this one had open: a load balancer must not take the node out because `sluiced` was started again,
   * whatever lies in the bundle directory now.
   */
  async recall(): Promise<void> {
    this.#active = this.#parts.memory.read();
    if (this.#active) await this.#parts.ports.follow(this.#active);
  }

  /** @param files those that the kernel now holds */
  async taken(files: BundleFiles): Promise<void> {
    this.#active = this.#reader.read(files);
    await this.#parts.ports.follow(this.#active);
    this.#write(this.#active);
  }

  /**
   * @param files those of which endpoints came to what stands, though the rest of them does not stand
   * @param rules what stands, with these endpoints
   */
  earlyEndpoints(files: BundleFiles, rules: Rules): void {
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
