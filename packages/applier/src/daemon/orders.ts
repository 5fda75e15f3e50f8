import { stateError } from '../command-error.ts';
import { limits } from '../limits.ts';
import { exitCodes } from '../ports/outcome.ts';

interface QueuedOrder {
  readonly carryOut: () => Promise<void>;
  readonly refuse: (why: string) => void;
}

/** A queue of operators' orders, which the daemon's loop carries out. */
export class Orders {
  #waiting: readonly QueuedOrder[] = [];
  #isEnded = false;

  get size(): number {
    return this.#waiting.length;
  }

  /**
   * Queues work.
   * @returns the result of the work
   * @throws the errors of the work; CommandError when it was not begun
   */
  async add<T>(work: () => Promise<T>): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const timer = setTimeout(() => {
      this.#waiting = this.#waiting.filter((one) => one !== order);
      order.refuse(`the change in progress did not end within ${limits.orderWaitMs / 1000} s`);
    }, limits.orderWaitMs);
    const order: QueuedOrder = {
      carryOut: () => {
        clearTimeout(timer);
        return work().then(resolve, reject);
      },
      refuse: (why) => {
        clearTimeout(timer);
        reject(
          stateError(
            `Cannot carry out the order now: ${why}`,
            'Run `sluiced status` to see the change in progress, then try again',
            exitCodes.refused,
          ),
        );
      },
    };
    if (this.#isEnded) order.refuse('sluiced ends');
    else this.#waiting = [...this.#waiting, order];
    return promise;
  }

  /** Carries out the orders one by one; an order whose time ran out in the queue is refused, not carried out late. */
  async carryOut(): Promise<void> {
    for (let [order] = this.#waiting; order; [order] = this.#waiting) {
      this.#waiting = this.#waiting.slice(1);
      await order.carryOut();
    }
  }

  /** Refuses all orders in the queue and all later ones. */
  refuse(): void {
    this.#isEnded = true;
    for (const order of this.#waiting) order.refuse('sluiced ends');
    this.#waiting = [];
  }
}
