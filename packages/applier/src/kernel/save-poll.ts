import { createHash } from 'node:crypto';
import { limits } from '../limits.ts';
import type { Change, ChangeWatch } from './changes.ts';
import { processorMs } from './processor-time.ts';
import type { Run } from './run.ts';

/**
 * Looks at the tables every few seconds and only sees whether they are other than before: who changed what is not to be known. Cheaper
 * than a comparison with what they should be, and still a walk over all rules, so the pause grows with what of a processor a look takes. What it sees
 * first asks for a comparison, too: only what was there before a comparison that found nothing is known to be right.
 */
export class SavePoll implements ChangeWatch {
  readonly #saves: readonly string[];
  readonly #run: Run;
  readonly #monotonicMs: () => number;
  readonly #processorMs: () => number;
  #digest: string | undefined;
  dueMs: number;

  /**
   * @param saves the save tools of all families
   * @param usedMs what of a processor this process and its children have used
   */
  constructor(saves: readonly string[], run: Run, monotonicMs: () => number, usedMs: () => number = processorMs) {
    this.#processorMs = usedMs;
    this.#saves = saves;
    this.#run = run;
    this.#monotonicMs = monotonicMs;
    this.dueMs = monotonicMs() + limits.pollPauseMs;
  }

  forget(): void {
    this.#digest = undefined;
  }

  close(): void {
    // Nothing is kept open between two looks.
  }

  async look(): Promise<Change | undefined> {
    const usedMs = this.#processorMs();
    const digest = await this.#read();
    const before = this.#digest;
    this.#digest = digest;
    const pauseMs = Math.max(limits.pollPauseMs, (this.#processorMs() - usedMs) * limits.pollPauseFactor);
    this.dueMs = this.#monotonicMs() + pauseMs;
    if (before === digest && digest !== undefined) return undefined;
    const isDoubt = before === undefined && digest !== undefined;
    return { by: undefined, what: [], ...(isDoubt ? { isDoubt } : {}) };
  }

  /** undefined: a tool did not answer, and the comparison says what is wrong. */
  async #read(): Promise<string | undefined> {
    const digest = new SaveDigest();
    for (const file of this.#saves) {
      const { exitCode } = await this.#run({ file, args: [], onOutput: (part) => digest.take(part) });
      if (exitCode !== 0) return undefined;
    }
    return digest.end();
  }
}

/** The digest of what save tools print, taken as it comes: all rules of a node as one text would be 50 MB. */
class SaveDigest {
  readonly #hash = createHash('sha256');
  #rest = '';

  take(part: string): void {
    const text = this.#rest + part;
    const end = text.lastIndexOf('\n') + 1;
    this.#hash.update(withoutCounters(text.slice(0, end)));
    this.#rest = text.slice(end);
  }

  end(): string {
    return this.#hash.update(this.#rest).digest('hex');
  }
}

/** Dates in comments and the counters of built-in chains change by themselves. */
const withoutCounters = (lines: string): string => lines.replaceAll(/^#.*\n/gm, '').replaceAll(/ \[\d+:\d+\]$/gm, '');
