import type { ListenedPort } from './localhost-listed.ts';

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
