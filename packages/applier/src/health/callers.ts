import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { limits } from '../limits.ts';

/**
 * The connections to all health-check node ports. Whoever can reach a port may open as many as it likes, and to refuse the newest would
 * keep out the load balancer: the one that has asked for nothing longest makes room.
 */
export class Callers {
  readonly #all = new Set<Socket>();
  /** Those that wait for no answer, the longest silent first. */
  readonly #silent = new Set<Socket>();

  come(caller: Socket): void {
    this.#all.add(caller);
    this.#silent.add(caller);
    caller.once('close', () => this.#forget(caller));
    if (this.#all.size <= limits.healthConnectionsMax) return;
    const longest = this.#silent.values().next().value;
    if (longest === undefined) return;
    this.#forget(longest);
    longest.destroy();
  }

  /** A caller has asked, and is silent again when its answer is out. */
  ask(caller: Socket, answer: ServerResponse): void {
    this.#silent.delete(caller);
    answer.once('close', () => {
      if (this.#all.has(caller)) this.#silent.add(caller);
    });
  }

  #forget(caller: Socket): void {
    this.#all.delete(caller);
    this.#silent.delete(caller);
  }
}
