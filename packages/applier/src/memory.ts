import { getHeapStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { limits } from './limits.ts';

/** What a process asks of its heap. */
export interface Heap {
  /** The bytes that it takes from the system now. */
  size(): number;
  /** Gives back whatever nothing needs. */
  collect(): void;
}

/**
 * V8 as a daemon needs it that stands for months beside what a node is there for. By itself it is made for throughput: at 10,000 Services
 * with 50,000 endpoints it let the heap grow to four times of what is in use, and 60 MB more for what is young, and gave nothing back when
 * the work was done. To be called before the work begins.
 */
export function smallHeap(): Heap {
  setFlagsFromString(`--heap-growing-percent=${limits.heapGrowthPercent}`);
  // What is young stays in one megabyte: a third more time for collecting, while rules are put together for the first time.
  setFlagsFromString('--semi-space-growth-factor=1');
  // The last of the compilers is 5 MB of code that would stay with the process. An endpoint that changes takes as long with it as without
  // (43 and 45 ms at 10,000 Services), the first load a tenth longer without it at most.
  setFlagsFromString('--no-turbofan');
  // The only way to ask for a collection; the rest of the program never sees it.
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as (how: { readonly type: 'major'; readonly flavor: 'last-resort' }) => void;
  setFlagsFromString('--no-expose-gc');
  // The thorough one also moves what is left together: the other kept 20 MB of pages with little on them.
  return {
    size: () => getHeapStatistics().total_heap_size,
    collect: () => collect({ type: 'major', flavor: 'last-resort' }),
  };
}

/** Decides when it is worth some tenths of a second to give memory back: after work that took much of it, and not too often. */
export class Tidier {
  readonly #heap: Heap;
  readonly #monotonicMs: () => number;
  #endMs = -Infinity;
  /** What the next collection waits for, where there is no more than a little to give back. */
  #pauseMs = 0;
  #kept = 0;

  constructor(heap: Heap, monotonicMs: () => number) {
    this.#heap = heap;
    this.#monotonicMs = monotonicMs;
  }

  /** To be called when there is nothing else to do. */
  idle(): void {
    const grown = this.#heap.size() - this.#kept;
    if (grown < limits.heapSlackBytes) return;
    const nowMs = this.#monotonicMs();
    // Ten times as much is worth ten times as many collections: a comparison of all rules leaves 40 MB.
    const pauseMs = (this.#pauseMs * limits.heapSlackBytes) / grown;
    if (nowMs < this.#endMs + Math.max(limits.collectPauseMs, pauseMs)) return;
    this.#heap.collect();
    this.#kept = this.#heap.size();
    this.#endMs = this.#monotonicMs();
    this.#pauseMs = (this.#endMs - nowMs) * limits.collectPauseFactor;
  }
}
