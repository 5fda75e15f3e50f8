import { connect, type Socket } from 'node:net';
import { limits } from '../limits.ts';

/** The relayed connections of all ports, each with the time at which bytes came last. */
export class Relays {
  readonly #most: number;
  readonly #monotonicMs: () => number;
  /** Each by its client; silent longest first, to within `relayNoticeMs`. */
  readonly #all = new Map<Socket, number>();

  /** @param most connections at the same time */
  constructor(most: number, monotonicMs: () => number) {
    this.#most = most;
    this.#monotonicMs = monotonicMs;
  }

  get count(): number {
    return this.#all.size;
  }

  /**
   * Connects a client to an endpoint. Where there is no room, the connection that was silent longest ends: any user of the node may open
   * connections, and refusing the newest would let them lock out the container runtime.
   * @param client paused, and half-open
   */
  open(client: Socket, host: string, port: number): void {
    if (this.#all.size >= this.#most) this.#makeRoom();
    this.#all.set(client, this.#monotonicMs());
    client.once('close', () => this.#all.delete(client));
    relay(client, host, port, () => this.#notice(client));
  }

  /** Ends all of them. */
  close(): void {
    for (const client of this.#all.keys()) client.resetAndDestroy();
  }

  #notice(client: Socket): void {
    const before = this.#all.get(client);
    const nowMs = this.#monotonicMs();
    if (before === undefined || nowMs - before < limits.relayNoticeMs) return;
    this.#all.delete(client);
    this.#all.set(client, nowMs);
  }

  #makeRoom(): void {
    const [leaves] = this.#all.keys();
    if (!leaves) return;
    this.#all.delete(leaves);
    leaves.resetAndDestroy();
  }
}

/**
 * Passes bytes in both directions, no faster than either side takes them. Each direction ends by itself; an error of one side resets the
 * other, and so does an endpoint that cannot be reached.
 * @param noticed bytes came
 */
function relay(client: Socket, host: string, port: number, noticed: () => void): void {
  const endpoint = connect({ host, port, allowHalfOpen: true, noDelay: true });
  // As kube-proxy's `dialTimeout`; from then on a silent connection may stay.
  const late = setTimeout(() => endpoint.destroy(new Error('timed out')), limits.relayConnectMs);
  endpoint.once('connect', () => {
    clearTimeout(late);
    for (const [from, to] of [
      [client, endpoint],
      [endpoint, client],
    ] as const) {
      from.setKeepAlive(true, limits.relayKeepAliveMs);
      from.on('data', noticed);
      from.pipe(to);
    }
  });
  for (const [one, other] of [
    [client, endpoint],
    [endpoint, client],
  ] as const) {
    // Its `close` follows.
    one.on('error', () => undefined);
    one.once('close', () => {
      clearTimeout(late);
      if (one.readableEnded && one.writableFinished) other.destroySoon();
      else other.resetAndDestroy();
    });
  }
}
