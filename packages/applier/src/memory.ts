import { getHeapStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { limits, paces } from './limits.ts';

/** The heap of a process. */
export interface Heap {
  /** The bytes that it takes from the system now. */
  size(): number;
  /** Keeps the space of young objects small from the next collection on, and compiles less. To be called when the first load is done. */
  settle(): void;
  /** Collects garbage and returns free pages to the system. */
  collect(): void;
}

/**
 * Tunes V8 for a daemon that shares a node for months. V8's defaults favour throughput: at 10,000 Services with 50,000 endpoints the heap
 * grew to four times the bytes in use, plus 60 MB for young objects, and nothing was returned when the work was done. Call it before the
 * work begins.
 */
export function smallHeap(): Heap {
  setFlagsFromString(`--heap-growing-percent=${limits.heapGrowthPercent}`);
  // The last compiler is 5 MB of code that would stay in memory. An endpoint update takes as long with it as without (43 and 45 ms at
  // 10,000 Services); the first load takes at most a tenth longer.
  setFlagsFromString('--no-turbofan');
  // V8 would collect all of the heap twice, half a minute after a start, 0.1 s of a processor each time, although `collect` has done so.
  // V8 before that of Node 26 does not know the flag, and would say so.
  if (Number.parseInt(process.versions.node, 10) >= 26) setFlagsFromString('--memory-reducer-gc-count=0');
  // The only way to request a collection; the rest of the program never sees `gc`.
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as (how: { readonly type: 'major'; readonly flavor: 'last-resort' }) => void;
  setFlagsFromString('--no-expose-gc');
  // The thorough collection also compacts, and makes the space of young objects small: the other one kept 20 MB of nearly empty pages.
  return {
    size: () => getHeapStatistics().total_heap_size,
    // Young objects stay in one megabyte. With that, linking rules for the first time takes 1.35 times the processor time, and without the
    // other compiler 1.2 times. What is compiled by then stays so; at 30 Services it was a twelfth of the work of changes.
    settle: () => {
      setFlagsFromString('--semi-space-growth-factor=1');
      setFlagsFromString('--no-maglev');
    },
    collect: () => collect({ type: 'major', flavor: 'last-resort' }),
  };
}

/** Decides when returning memory is worth some tenths of a second: after work that took much of it, and not too often. */
export class Tidier {
  readonly #heap: Heap;
  readonly #monotonicMs: () => number;
  #endMs = -Infinity;
  /** The pause before the next collection when there is little to return. */
  #pauseMs = 0;
  #kept = 0;
  #workedMs = -Infinity;

  constructor(heap: Heap, monotonicMs: () => number) {
    this.#heap = heap;
    this.#monotonicMs = monotonicMs;
  }

  /** A change was applied. Others often follow, and would wait for a collection. */
  worked(): void {
    this.#workedMs = this.#monotonicMs();
  }

  /** To be called when the loop is idle. */
  idle(): void {
    const grown = this.#heap.size() - this.#kept;
    if (grown < limits.heapSlackBytes) return;
    const nowMs = this.#monotonicMs();
    if (grown < limits.heapSlackAtWorkBytes && nowMs < this.#workedMs + limits.collectQuietMs) return;
    // Ten times as much memory is worth ten times as many collections: a comparison of all rules leaves 40 MB.
    const pauseMs = (this.#pauseMs * limits.heapSlackBytes) / grown;
    if (nowMs < this.#endMs + Math.max(paces.collection.leastMs, pauseMs)) return;
    this.#heap.collect();
    this.#kept = this.#heap.size();
    this.#endMs = this.#monotonicMs();
    this.#pauseMs = (this.#endMs - nowMs) * paces.collection.factor;
  }
}
