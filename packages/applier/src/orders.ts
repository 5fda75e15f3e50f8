import { stateError } from './command-error.ts';
import { limits } from './limits.ts';
import { exitCodes } from './rollout/outcome.ts';

interface Order {
  readonly carryOut: () => Promise<void>;
  readonly refuse: (why: string) => void;
}

/** Orders of operators, until the daemon's loop comes to them. */
export class Orders {
  #waiting: readonly Order[] = [];
  #isEnded = false;

  get size(): number {
    return this.#waiting.length;
  }

  /**
   * @returns what the work gives
   * @throws what it throws; CommandError where it was not begun
   */
  async add<T>(work: () => Promise<T>): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const timer = setTimeout(() => {
      this.#waiting = this.#waiting.filter((one) => one !== order);
      order.refuse(`the change in progress did not end within ${limits.orderWaitMs / 1000} s`);
    }, limits.orderWaitMs);
    const order: Order = {
      carryOut: () => {
        clearTimeout(timer);
        return work().then(resolve, reject);
      },
      refuse: (why) => {
        clearTimeout(timer);
        reject(
          stateError(
            `Cannot do that now: ${why}`,
            '`sluiced status` shows what is in progress; try again',
            exitCodes.refused,
          ),
        );
      },
    };
    if (this.#isEnded) order.refuse('sluiced ends');
    else this.#waiting = [...this.#waiting, order];
    return promise;
  }

  /** One by one from the queue: an order that waits too long behind another is refused, and not carried out behind that. */
  async carryOut(): Promise<void> {
    for (let [order] = this.#waiting; order; [order] = this.#waiting) {
      this.#waiting = this.#waiting.slice(1);
      await order.carryOut();
    }
  }

  /** None of them is carried out any more, and none that comes. */
  refuse(): void {
    this.#isEnded = true;
    for (const order of this.#waiting) order.refuse('sluiced ends');
    this.#waiting = [];
  }
}
