import type { RequestListener, Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { limits } from '../../limits.ts';
import { Callers } from './callers.ts';
import { closePort, openPort } from './port.ts';

/** What the port needs from the daemon. */
interface StatusPortOptions {
  readonly answer: RequestListener;
  /** It could not be opened; undefined: it is open. */
  readonly failed: (why: string | undefined) => void;
}

/**
 * The port of the daemon's status. Another user of the node can take it while `sluiced` is stopped, and its address may appear late: no
 * rule waits for it.
 */
export class StatusPort {
  readonly #listen: string;
  readonly #parts: StatusPortOptions;
  readonly #callers = new Callers(limits.statusConnectionsMax);
  #server: Server | undefined;

  /** @param listen `address:port` */
  constructor(listen: string, parts: StatusPortOptions) {
    this.#listen = listen;
    this.#parts = parts;
  }

  /** Opens it unless it is open. */
  async refresh(): Promise<void> {
    const colon = this.#listen.lastIndexOf(':');
    const host = this.#listen.slice(0, colon).replace(/^\[(.*)\]$/, '$1');
    const port = Number(this.#listen.slice(colon + 1));
    try {
      this.#server ??= await openPort({ host, port }, this.#callers, this.#parts.answer);
      this.#parts.failed(undefined);
    } catch (error) {
      this.#parts.failed(`Cannot listen on ${this.#listen}: ${(error as Error).message}`);
    }
  }

  /** The port, which the kernel may have chosen; undefined while it is closed. */
  get number(): number | undefined {
    return (this.#server?.address() as AddressInfo | null | undefined)?.port;
  }

  close(): void {
    if (this.#server) closePort(this.#server);
    this.#server = undefined;
  }
}
