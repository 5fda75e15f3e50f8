import { stateError } from '../command-error.ts';
import { limits } from '../limits.ts';
import { exitCodes } from '../ports/outcome.ts';

interface QueuedOrder {
  readonly carryOut: () => Promise<void>;
  readonly refuse: (why: string) => void;
}

/**
 * A queue of operators' orders, which the daemon's loop carries out. However many arrive, the loop goes on, and every second release is
 * left its whole probation.
 */
export class Orders {
  #waiting: readonly QueuedOrder[] = [];
  #isEnded = false;
  /** An order ended the probation of the last change. */
  #hasEndedChange = false;
  /** The change in progress goes on to its own end. */
  #isChangeSpared = false;

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

  /** A change begins. */
  beginChange(): void {
    this.#isChangeSpared = this.#hasEndedChange;
  }

  /**
   * Whether an order ends a release's probation now. Not one after the other: orders that never stop would let none end, and then orders
   * wait.
   */
  endsChange(): boolean {
    this.#hasEndedChange = this.size > 0 && !this.#isChangeSpared;
    return this.#hasEndedChange;
  }

  /**
   * Carries out the orders that are in the queue now, one by one; an order whose time ran out there is refused, not carried out late.
   * Later ones wait for the next round of the loop.
   */
  async carryOut(): Promise<void> {
    for (const order of this.#waiting) {
      // One whose time ran out meanwhile has left the queue.
      if (!this.#waiting.includes(order)) continue;
      this.#waiting = this.#waiting.filter((one) => one !== order);
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
