import { hash } from 'node:crypto';
import { limits } from '../limits.ts';
import type { Change, ChangeWatch } from './changes.ts';
import type { Run } from './run.ts';

/**
 * Looks at the tables every few seconds and only sees whether they are other than before: who changed what is not to be known. Cheaper
 * than a comparison with what they should be, and still a walk over all rules, so the pause grows with what a look takes. What it sees
 * first asks for a comparison, too: only what was there before a comparison that found nothing is known to be right.
 */
export class SavePoll implements ChangeWatch {
  readonly #saves: readonly string[];
  readonly #run: Run;
  readonly #monotonicMs: () => number;
  #digest: string | undefined;
  /** The earliest time of a look after something of ours. */
  #againMs = -Infinity;
  dueMs: number;

  /** @param saves the save tools of all families */
  constructor(saves: readonly string[], run: Run, monotonicMs: () => number) {
    this.#saves = saves;
    this.#run = run;
    this.#monotonicMs = monotonicMs;
    this.dueMs = monotonicMs() + limits.pollPauseMs;
  }

  /** The next look comes soon. */
  forget(): void {
    this.#digest = undefined;
    this.dueMs = Math.max(this.#monotonicMs(), this.#againMs);
  }

  close(): void {
    // Nothing is kept open between two looks.
  }

  async look(): Promise<Change | undefined> {
    const beginMs = this.#monotonicMs();
    const digest = await this.#read();
    const before = this.#digest;
    this.#digest = digest;
    const endMs = this.#monotonicMs();
    this.dueMs = endMs + Math.max(limits.pollPauseMs, (endMs - beginMs) * limits.pollPauseFactor);
    this.#againMs = endMs + (endMs - beginMs) * limits.comparePauseFactor;
    return before === digest && digest !== undefined ? undefined : { by: undefined, what: [] };
  }

  /** undefined: a tool did not answer, and the comparison says what is wrong. */
  async #read(): Promise<string | undefined> {
    const texts: string[] = [];
    for (const file of this.#saves) {
      const { exitCode, stdout } = await this.#run({ file, args: [] });
      if (exitCode !== 0) return undefined;
      texts.push(withoutCounters(stdout));
    }
    return hash('sha256', texts.join('\n'));
  }
}

/** Dates in comments and the counters of built-in chains change by themselves. */
const withoutCounters = (text: string): string => text.replaceAll(/^#.*\n/gm, '').replaceAll(/ \[\d+:\d+\]$/gm, '');
