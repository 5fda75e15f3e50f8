import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/**
 * The connections to some ports that anybody may open. Whoever can reach one may open as many connections as it likes, and to refuse the
 * newest would keep out whom the port is for, such as the load balancer: the one that has asked for nothing longest makes room, or else
 * the oldest.
 */
export class Callers {
  readonly #most: number;
  /** Each with how many answers it waits for: who asks again without waiting is answered one by one. */
  readonly #all = new Map<Socket, number>();
  /** Those that wait for no answer, the longest silent first. */
  readonly #silent = new Set<Socket>();

  /** @param most so many at the same time */
  constructor(most: number) {
    this.#most = most;
  }

  come(caller: Socket): void {
    if (this.#all.size >= this.#most) this.#makeRoom();
    this.#all.set(caller, 0);
    this.#silent.add(caller);
    caller.once('close', () => this.#forget(caller));
  }

  /** A caller has asked, and is silent again when its last answer is out. */
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

  #makeRoom(): void {
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
