import { WorkCost } from '../processor-time.ts';

/** What work may use of a processor. */
interface AllowanceSize {
  /** Of the time that goes by: 0.002 is 0.2 %. */
  readonly share: number;
  /** So much at once, after a while without work. */
  readonly burstMs: number;
}

/**
 * Processor time for work that may be left out. It grows with time and shrinks with use; work that costs more than is left is done, and then
 * none for as long as that takes to grow back, so that expensive work is done now and then, and cheap work each time.
 */
export class Allowance {
  readonly #size: AllowanceSize;
  readonly #monotonicMs: () => number;
  #leftMs: number;
  #atMs: number;

  constructor(size: AllowanceSize, monotonicMs: () => number) {
    this.#size = size;
    this.#monotonicMs = monotonicMs;
    this.#leftMs = size.burstMs;
    this.#atMs = monotonicMs();
  }

  /** Does the work if any time is left for it; the work counts its cost. @returns undefined: it was left out */
  async spend<T>(work: (cost: WorkCost) => Promise<T>): Promise<T | undefined> {
    const { share, burstMs } = this.#size;
    const nowMs = this.#monotonicMs();
    this.#leftMs = Math.min(burstMs, this.#leftMs + (nowMs - this.#atMs) * share);
    this.#atMs = nowMs;
    if (this.#leftMs <= 0) return undefined;
    const cost = new WorkCost();
    try {
      return await work(cost);
    } finally {
      this.#leftMs -= cost.usedMs;
    }
  }
}
