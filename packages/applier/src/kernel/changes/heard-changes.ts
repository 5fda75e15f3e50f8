import { limits } from '../../limits.ts';
import type { ChangeCount } from './change-count.ts';
import type { ChangeWatch, ForeignChange } from './foreign-change.ts';
import { judgeHearing } from './hearing.ts';
import type { NftMonitor } from './nft-monitor.ts';

/** What tells of changes, the best first. */
interface HeardParts {
  readonly monitor: Pick<NftMonitor, 'state' | 'told' | 'everTold' | 'returnMs' | 'restart' | 'close'>;
  readonly count: Pick<ChangeCount, 'read'>;
  readonly poll: ChangeWatch;
  readonly monotonicMs: () => number;
}

/**
 * Changes that a monitor reports by itself, and each second the proof that it hears: the count of changes stands, or the monitor reported
 * something and has read everything. One that does not hear is replaced, and the tables are compared. Until the next one runs, the count
 * alone says whether there is anything to compare; where nothing is counted, polls do.
 */
export class HeardChanges implements ChangeWatch {
  readonly #parts: HeardParts;
  /** The count, and the number of reports, when every change was known. */
  #count: string | undefined;
  #told = 0;
  /** The number of reports at the last look. */
  #toldLast = 0;
  #lateSinceMs: number | undefined;
  /** Sluice itself changed something since the last look, which the count does not tell apart. */
  #hasWritten = false;
  #dueMs: number;

  constructor(parts: HeardParts) {
    this.#parts = parts;
    this.#dueMs = parts.monotonicMs() + limits.hearPauseMs;
    // Changes count from now on.
    void parts.count.read().then((count) => {
      this.#count ??= count;
    });
  }

  get dueMs(): number {
    return this.#dueMs;
  }

  async look(): Promise<ForeignChange | 'unchanged' | 'unknown'> {
    const { monitor, count: counter, monotonicMs } = this.#parts;
    const count = await counter.read();
    const nowMs = monotonicMs();
    const told = monitor.told !== this.#told;
    // A report is a sign of life.
    if (monitor.told !== this.#toldLast) this.#lateSinceMs = nowMs;
    this.#lateSinceMs ??= nowMs;
    this.#toldLast = monitor.told;
    const isNew = count === undefined || this.#count === undefined;
    const moved = isNew ? undefined : count !== this.#count;
    const { state, everTold } = monitor;
    const hearing = judgeHearing({ monitor: state, moved, told, everTold, lateMs: nowMs - this.#lateSinceMs });
    this.#dueMs = nowMs + (hearing === 'late' ? limits.hearAgainMs : limits.hearPauseMs);
    if (hearing === 'late') return 'unknown';
    if (hearing === 'unknown') return this.#poll(count);
    if (hearing === 'deaf') monitor.restart();
    const hasWritten = this.#hasWritten;
    this.#count = count;
    this.#told = monitor.told;
    this.#lateSinceMs = undefined;
    this.#hasWritten = false;
    if (hearing === 'complete' || moved === false) return 'unchanged';
    return { by: undefined, what: [], ...(hasWritten ? { isDoubt: true } : {}) };
  }

  async #poll(count: string | undefined): Promise<ForeignChange | 'unchanged' | 'unknown'> {
    const { monitor, poll, monotonicMs } = this.#parts;
    const began = this.#count === undefined && count !== undefined;
    this.#count = count;
    // What happened before the count began is not known.
    if (began) return { by: undefined, what: [], isDoubt: true };
    const dueMs = Math.max(poll.dueMs, monitor.returnMs);
    if (monotonicMs() < dueMs) return 'unknown';
    return poll.look();
  }

  forget(): void {
    this.#hasWritten = true;
    this.#parts.poll.forget();
  }

  close(): void {
    this.#parts.monitor.close();
  }
}
