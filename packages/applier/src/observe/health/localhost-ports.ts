import { connect, createServer, type Server, type Socket } from 'node:net';
import {
  isNodePort,
  localhostListenerAddress,
  type NftState,
  readFrontend,
  readFrontendKey,
  slotsOf,
  tableOptions,
} from '@sluice/netfilter';
import { limits } from '../../limits.ts';

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
    if (this.#all.size >= this.#most) this.#evict();
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

  #evict(): void {
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

/** What the ports need from the daemon. */
interface LocalhostPortsDependencies {
  /** What packets meet: a release on probation, or else the active generation. */
  readonly journal: { readonly active: Followed | undefined; readonly undecided: Followed | undefined };
  readonly monotonicMs: () => number;
  /** A port could not be opened; undefined: all are open. */
  readonly failed: (why: string | undefined) => void;
  /** How many ports are open, and how many times one could not be opened since the start. */
  readonly counted: (open: number, failures: number) => void;
}

interface Followed {
  readonly state: { readonly nft?: NftState };
}

interface OpenPort {
  readonly server: Server;
  readonly choice: EndpointChoice;
}

/**
 * Node ports on ::1 in mode nftables, for TCP: the kernel has no `route_localnet` for IPv6, so that a program has to listen there, as
 * kube-proxy 1.38 does. They follow what packets meet: a release on probation, and the active generation once it is rolled back.
 */
export class LocalhostPorts {
  readonly #parts: LocalhostPortsDependencies;
  readonly #open = new Map<number, OpenPort>();
  readonly #relays: Relays;
  #followed: NftState | undefined;
  #hasAll = true;
  #failures = 0;
  #isRefreshing = false;
  #isClosed = false;

  constructor(parts: LocalhostPortsDependencies) {
    this.#parts = parts;
    this.#relays = new Relays(limits.relaysMax, parts.monotonicMs);
  }

  /** The connections through all ports. */
  get connections(): number {
    return this.#relays.count;
  }

  /**
   * Opens missing ports, closes the rest, and takes the endpoints of now. Connections of a closed port go on, like
   * those that rules have translated. Costs nothing while the state is the same.
   */
  async refresh(): Promise<void> {
    if (this.#isRefreshing || this.#isClosed) return;
    this.#isRefreshing = true;
    try {
      while (!this.#isClosed && (this.#met !== this.#followed || !this.#hasAll)) {
        this.#followed = this.#met;
        await this.#follow(this.#followed);
        if (!this.#hasAll) break;
      }
    } finally {
      this.#isRefreshing = false;
      if (this.#isClosed) this.close();
    }
  }

  /** Closes every port for good, one that is being opened too, and ends their connections. */
  close(): void {
    this.#isClosed = true;
    for (const { server } of this.#open.values()) server.close();
    this.#open.clear();
    this.#relays.close();
  }

  /** Undefined: it is of another mode, or there is none. */
  get #met(): NftState | undefined {
    const { undecided, active } = this.#parts.journal;
    return (undecided ?? active)?.state.nft;
  }

  async #follow(state: NftState | undefined): Promise<void> {
    const wanted = new Map((state ? listenedPorts(state) : []).map((one) => [one.port, one]));
    for (const [port, { server }] of this.#open) {
      if (wanted.has(port)) continue;
      this.#open.delete(port);
      server.close();
    }
    const failures: string[] = [];
    for (const [port, one] of wanted) {
      const known = this.#open.get(port);
      if (known) known.choice.follow(one);
      else if (!this.#isClosed) {
        const choice = new EndpointChoice(one, this.#parts.monotonicMs);
        const server = await this.#listen(port, choice);
        if (typeof server === 'string') failures.push(server);
        else this.#open.set(port, { server, choice });
      }
    }
    this.#hasAll = failures.length === 0;
    this.#failures += failures.length;
    this.#parts.failed(failures[0]);
    this.#parts.counted(this.#open.size, this.#failures);
  }

  /** @returns why it could not be opened */
  async #listen(port: number, choice: EndpointChoice): Promise<Server | string> {
    const server = createServer({ allowHalfOpen: true, pauseOnConnect: true, noDelay: true });
    server.on('connection', (client: Socket) => {
      const [host = '', to] = choice.next().split(' . ');
      this.#relays.open(client, host, Number(to));
    });
    const { promise, resolve } = Promise.withResolvers<Server | string>();
    // Stays registered: an unhandled error would end the process.
    server.on('error', ({ message }) => resolve(`Cannot listen on node port ${port} of ::1: ${message}`));
    server.listen({ host: localhostListenerAddress, port, ipv6Only: true }, () => resolve(server));
    return promise;
  }
}

/**
 * Chooses an endpoint for each connection to a node port on ::1, at random. All clients there have one address, so that session affinity
 * keeps them all at one endpoint for as long as it is in the list: so do rules, and kube-proxy's listener (`pickEndpoint` in
 * `pkg/proxy/localnodeportproxy`).
 */
export class EndpointChoice {
  readonly #monotonicMs: () => number;
  readonly #random: () => number;
  #port: ListenedPort;
  #kept: { readonly endpoint: string; readonly usedMs: number } | undefined;

  /** @param random from 0 up to 1 */
  constructor(port: ListenedPort, monotonicMs: () => number, random: () => number = Math.random) {
    this.#port = port;
    this.#monotonicMs = monotonicMs;
    this.#random = random;
  }

  /** The port has other endpoints now, or another affinity. */
  follow(port: ListenedPort): void {
    if (port.affinitySeconds !== this.#port.affinitySeconds) this.#kept = undefined;
    this.#port = port;
  }

  /** @returns `fd00:10:244::5 . 8080` */
  next(): string {
    const { slots, affinitySeconds } = this.#port;
    const nowMs = this.#monotonicMs();
    const kept = this.#kept;
    const isKept =
      kept !== undefined &&
      affinitySeconds !== undefined &&
      nowMs - kept.usedMs <= affinitySeconds * 1000 &&
      slots.includes(kept.endpoint);
    // A port without endpoints is not listened on.
    const endpoint = isKept ? kept.endpoint : (slots[Math.floor(this.#random() * slots.length)] as string);
    if (affinitySeconds !== undefined) this.#kept = { endpoint, usedMs: nowMs };
    return endpoint;
  }
}

/** A node port that is served on ::1. */
interface ListenedPort {
  readonly port: number;
  /** `fd00:10:244::5 . 8080`, as often as its weight says. */
  readonly slots: readonly string[];
  readonly affinitySeconds: number | undefined;
}

/**
 * The TCP node ports that `sluiced` serves on ::1, in the order of the state: those with an endpoint, with policy Local one of the node. These
 * are the endpoints of kube-proxy's listener (`syncProxyRules` in `pkg/proxy/nftables`).
 * @returns none where the table of the state leaves nothing to a listener
 */
export function listenedPorts({ settings, frontends }: NftState): readonly ListenedPort[] {
  if (tableOptions(settings).localhostListener !== true) return [];
  return [...frontends].flatMap(([key, lines]): readonly ListenedPort[] => {
    const { family, protocol, address } = readFrontendKey(key);
    if (family !== 'ipv6' || protocol !== 'tcp' || !isNodePort({ family, address })) return [];
    const frontend = readFrontend(key, lines);
    const slots = slotsOf(frontend, frontend.outside === 'local' ? frontend.local : frontend.endpoints);
    const { port, affinitySeconds } = frontend;
    return slots.length === 0 ? [] : [{ port, slots, affinitySeconds }];
  });
}
