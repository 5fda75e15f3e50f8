import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/**
 * The connections to ports that any client can open. A client may open as many as it likes, and refusing the newest would lock out the load
 * balancer: the connection that was silent longest is closed, or else the oldest.
 */
export class Callers {
  readonly #most: number;
  /** Each connection with the answers it waits for. */
  readonly #all = new Map<Socket, number>();
  /** The connections that wait for no answer, silent longest first. */
  readonly #silent = new Set<Socket>();

  /** @param most connections at the same time */
  constructor(most: number) {
    this.#most = most;
  }

  come(caller: Socket): void {
    if (this.#all.size >= this.#most) this.#evict();
    this.#all.set(caller, 0);
    this.#silent.add(caller);
    caller.once('close', () => this.#forget(caller));
  }

  /** A connection has sent a request; it is silent again when its last answer is out. */
  ask(caller: Socket, answer: ServerResponse): void {
    this.#awaits(caller, 1);
    answer.once('close', () => this.#awaits(caller, -1));
  }

  #awaits(caller: Socket, more: 1 | -1): void {
    const before = this.#all.get(caller);
    if (before === undefined) return;
    const answers = before + more;
    this.#all.set(caller, answers);
    if (answers === 0) this.#silent.add(caller);
    else this.#silent.delete(caller);
  }

  #evict(): void {
    const [leaves] = this.#silent.size > 0 ? this.#silent : this.#all.keys();
    if (leaves === undefined) return;
    this.#forget(leaves);
    leaves.destroy();
  }

  #forget(caller: Socket): void {
    this.#all.delete(caller);
    this.#silent.delete(caller);
  }
}
