import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/**
 * The connections to some ports that anybody may open. Whoever can reach one may open as many connections as it likes, and to refuse the
 * newest would keep out whom the port is for, such as the load balancer: the one that has asked for nothing longest makes room, or else
 * the oldest.
 */
export class Callers {
  readonly #most: number;
  readonly #all = new Set<Socket>();
  /** Those that wait for no answer, the longest silent first. */
  readonly #silent = new Set<Socket>();

  /** @param most so many at the same time */
  constructor(most: number) {
    this.#most = most;
  }

  come(caller: Socket): void {
    if (this.#all.size >= this.#most) this.#makeRoom();
    this.#all.add(caller);
    this.#silent.add(caller);
    caller.once('close', () => this.#forget(caller));
  }

  /** A caller has asked, and is silent again when its answer is out. */
  ask(caller: Socket, answer: ServerResponse): void {
    this.#silent.delete(caller);
    answer.once('close', () => {
      if (this.#all.has(caller)) this.#silent.add(caller);
    });
  }

  #makeRoom(): void {
    const [leaves] = this.#silent.size > 0 ? this.#silent : this.#all;
    if (leaves === undefined) return;
    this.#forget(leaves);
    leaves.destroy();
  }

  #forget(caller: Socket): void {
    this.#all.delete(caller);
    this.#silent.delete(caller);
  }
}
