import { getHeapStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/**
 * How much the heap may grow over what is in use before it is collected, in percent. V8's own choice, made for throughput, is up to four times:
 * 740 MB resident at 10,000 Services with 50,000 endpoints, where this took 425 MB and the same time.
 */
const heapGrowth = 40;

/**
 * V8 collects twice by itself half a minute after a start, when a process does little: each time all of the heap, 0.2 to 0.3 s of a
 * processor at 10,000 Services, although memory was returned already. V8 before that of Node 26 does not know the flag, and would say so.
 */
const withoutReducer = Number.parseInt(process.versions.node, 10) >= 26 ? ['--memory-reducer-gc-count=0'] : [];

/**
 * The pause without a publication after which memory is returned, the longest wait for such a pause, and the least time between two
 * returns: a change that comes during one waits for it. Milliseconds. And by how many bytes the heap may grow until the next one: at 10,000
 * Services 100 changes a second had made 338 MB of 208 within ten minutes, and reading all objects again leaves 30 MB.
 */
export const returnLimits = {
  quietMs: 1_000,
  waitMs: 60_000,
  betweenMs: 60_000,
  slackBytes: 16 * 1024 * 1024,
} as const;

/** The heap of this process. */
export interface Heap {
  /** The bytes that it takes from the system now. */
  size(): number;
  /** Collects garbage and returns free pages to the system. Takes some tenths of a second. */
  collect(): void;
}

/** Tunes V8 for a process that holds a cluster for months. To be called before the cluster is read. */
export function watchHeap(): Heap {
  setFlagsFromString(`--heap-growing-percent=${heapGrowth}`);
  for (const flag of withoutReducer) setFlagsFromString(flag);
  // The only way to request a collection; the rest of the program never sees `gc`.
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc') as (how: { readonly type: 'major'; readonly flavor: 'last-resort' }) => void;
  setFlagsFromString('--no-expose-gc');
  return {
    size: () => getHeapStatistics().total_heap_size,
    collect: () => {
      // Young objects take up to 64 MB while a cluster is read and rendered, which a change of endpoints does not need.
      setFlagsFromString('--semi-space-growth-factor=1');
      // The thorough collection also compacts, and makes the space of young objects small again.
      gc({ type: 'major', flavor: 'last-resort' });
    },
  };
}

/**
 * Returns memory after a render of everything, which takes much more than one of the Services that changed, and when many changes have
 * left as much: at the first pause between publications, since a change would wait for it.
 */
export class MemoryReturn {
  readonly #giveBack: () => void;
  #timer: NodeJS.Timeout | undefined;
  /** The latest time, monotonic, in milliseconds; undefined: there is nothing to return. */
  #latestMs: number | undefined;
  #lastMs = -Infinity;
  /** The size of the heap after the last return. */
  #keptBytes = 0;
  readonly #nowMs: () => number;
  readonly #size: Heap['size'];

  /**
   * @param giveBack takes some tenths of a second
   * @param size of the heap
   */
  constructor(giveBack: () => void, nowMs: () => number, size: Heap['size']) {
    this.#giveBack = giveBack;
    this.#nowMs = nowMs;
    this.#size = size;
  }

  /** To be called after each publication. @param isWhole whether everything was rendered */
  published(isWhole: boolean): void {
    const isMuch = this.#size() - this.#keptBytes > returnLimits.slackBytes;
    if (isWhole || isMuch) this.#latestMs ??= this.#nowMs() + returnLimits.waitMs;
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
    this.#keptBytes = this.#size();
    this.#lastMs = this.#nowMs();
  }
}
