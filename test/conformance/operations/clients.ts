import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Host } from '../../netns/cluster-host.ts';
import { until } from '../../netns/until.ts';
import type { Met } from '../inside/clients.ts';

type ByAddress = Readonly<Record<string, Met>>;

/** Connections from a node to Services, all the time: new ones, and to `kept:ADDRESS` one that stays. They end with the node. */
export class Clients {
  readonly #file: string;

  private constructor(file: string) {
    this.#file = file;
  }

  /** Ends once each address has answered. @param folder for what they count */
  static async start(host: Host, folder: string, addresses: readonly string[]): Promise<Clients> {
    const file = join(folder, `clients-${host.name}.json`);
    host.start([process.execPath, join(import.meta.dirname, '../inside/clients.ts'), file, ...addresses]);
    const clients = new Clients(file);
    await clients.goOn();
    return clients;
  }

  #met(): ByAddress {
    try {
      return JSON.parse(readFileSync(this.#file, 'utf8')) as ByAddress;
    } catch {
      return {};
    }
  }

  served(): number {
    return Object.values(this.#met()).reduce((sum, { served }) => sum + served, 0);
  }

  /** Connections without an answer, such as `10.96.0.7: ECONNREFUSED, 3 times`. */
  lost(): readonly string[] {
    return Object.entries(this.#met()).flatMap(([address, { lost }]) =>
      Object.entries(lost).map(([code, count]) => `${address}: ${code}, ${count} times`),
    );
  }

  /** The pods that have answered at an address. */
  pods(address: string): readonly string[] {
    return Object.keys(this.#met()[address]?.pods ?? {});
  }

  /** Waits until each address has answered some more times: a connection that is lost until then is counted. */
  async goOn(): Promise<void> {
    const before = this.#met();
    await until(
      'each Service answers',
      async () => {
        const met = Object.entries(this.#met());
        return met.length > 0 && met.every(([address, { served }]) => served > 10 + (before[address]?.served ?? 0));
      },
      60_000,
    );
  }
}
