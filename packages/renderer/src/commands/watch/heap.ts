import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/**
 * How much the heap may grow over what is in use before it is collected, in percent. V8's own choice, made for throughput, is up to four times:
 * 740 MB resident at 10,000 Services with 50,000 endpoints, where this took 425 MB and the same time.
 */
const heapGrowth = 40;

/**
 * V8 collects twice by itself, this long after the last collection, when a process does little: each time all of the heap, 0.2 to 0.3 s of
 * a processor at 10,000 Services. It returns what a burst of changes has left; that need not be at once. Its own choice is 30 s. Milliseconds.
 */
const reducerMs = 10 * 60_000;

/**
 * The pause without a publication after which memory is returned, the longest wait for such a pause, and the least time between two
 * returns: a change that comes during one waits for it. Milliseconds.
 */
export const returnLimits = { quietMs: 1_000, waitMs: 60_000, betweenMs: 60_000 } as const;

/** The heap of this process. */
export interface Heap {
  /** Collects garbage and returns free pages to the system. Takes some tenths of a second. */
  collect(): void;
}

/** Tunes V8 for a process that holds a cluster for months. To be called before the cluster is read. */
export function watchHeap(): Heap {
  setFlagsFromString(`--heap-growing-percent=${heapGrowth}`);
  setFlagsFromString(`--gc-memory-reducer-start-delay-ms=${reducerMs}`);
  // The only way to request a collection; the rest of the program never sees `gc`.
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc') as (how: { readonly type: 'major'; readonly flavor: 'last-resort' }) => void;
  setFlagsFromString('--no-expose-gc');
  return {
    collect: () => {
      // Young objects take up to 64 MB while a cluster is read and rendered, which a change of endpoints does not need.
      setFlagsFromString('--semi-space-growth-factor=1');
      // The thorough collection also compacts, and makes the space of young objects small again.
      gc({ type: 'major', flavor: 'last-resort' });
    },
  };
}

/**
 * Returns memory after a render of everything, which takes much more than one of the Services that changed: at the first pause between
 * publications, since a change would wait for it.
 */
export class MemoryReturn {
  readonly #giveBack: () => void;
  #timer: NodeJS.Timeout | undefined;
  /** The latest time, monotonic, in milliseconds; undefined: there is nothing to return. */
  #latestMs: number | undefined;
  #lastMs = -Infinity;
  readonly #nowMs: () => number;

  /** @param giveBack takes some tenths of a second */
  constructor(giveBack: () => void, nowMs: () => number) {
    this.#giveBack = giveBack;
    this.#nowMs = nowMs;
  }

  /** Whether memory is to be returned at the next pause. */
  get isPending(): boolean {
    return this.#latestMs !== undefined;
  }

  /** To be called after each publication. @param isWhole whether everything was rendered */
  published(isWhole: boolean): void {
    if (isWhole) this.#latestMs ??= this.#nowMs() + returnLimits.waitMs;
    if (this.#latestMs === undefined) return;
    clearTimeout(this.#timer);
    const nowMs = this.#nowMs();
    const nextMs = this.#lastMs + returnLimits.betweenMs - nowMs;
    const waitMs = Math.max(0, nextMs, Math.min(returnLimits.quietMs, this.#latestMs - nowMs));
    this.#timer = setTimeout(() => this.#returnNow(), waitMs).unref();
  }

  #returnNow(): void {
    this.#latestMs = undefined;
    this.#giveBack();
    this.#lastMs = this.#nowMs();
  }
}
