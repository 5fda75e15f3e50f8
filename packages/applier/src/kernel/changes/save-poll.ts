import { createHash } from 'node:crypto';
import { pauseAfter, paces } from '../../limits.ts';
import type { ForeignChange, ChangeWatch } from './foreign-change.ts';
import { processorMs } from '../processor-time.ts';
import type { Run } from '../command.ts';

/**
 * Polls the tables every few seconds and only sees whether they differ from the last time, not who changed what. Cheaper than a comparison
 * with the desired rules, but still a walk over all rules, so the pause grows with the processor time of a poll. The first poll asks for a
 * comparison, too: only content from before a comparison without findings is known to be right.
 */
export class SavePoll implements ChangeWatch {
  readonly #saves: readonly string[];
  readonly #run: Run;
  readonly #monotonicMs: () => number;
  readonly #processorMs: () => number;
  readonly #more: () => Promise<string | undefined>;
  #digest: string | undefined;
  dueMs: number;

  /**
   * @param saves the save tools of all families
   * @param usedMs the processor time of this process and its children
   * @param more a digest of what no save tool prints; undefined: it cannot be read
   */
  constructor(
    saves: readonly string[],
    run: Run,
    monotonicMs: () => number,
    usedMs: () => number = processorMs,
    more: () => Promise<string | undefined> = async () => '',
  ) {
    this.#more = more;
    this.#processorMs = usedMs;
    this.#saves = saves;
    this.#run = run;
    this.#monotonicMs = monotonicMs;
    this.dueMs = monotonicMs() + paces.poll.leastMs;
  }

  forget(): void {
    this.#digest = undefined;
  }

  close(): void {
    // Nothing is open between two polls.
  }

  async look(): Promise<ForeignChange | 'unchanged'> {
    const usedMs = this.#processorMs();
    const digest = await this.#read();
    const before = this.#digest;
    this.#digest = digest;
    this.dueMs = this.#monotonicMs() + pauseAfter(this.#processorMs() - usedMs, paces.poll);
    if (before === digest && digest !== undefined) return 'unchanged';
    const isDoubt = before === undefined && digest !== undefined;
    return { by: undefined, what: [], ...(isDoubt ? { isDoubt } : {}) };
  }

  /** undefined: a tool failed, and the comparison reports why. */
  async #read(): Promise<string | undefined> {
    const digest = new SaveDigest();
    for (const file of this.#saves) {
      const { exitCode } = await this.#run({ file, args: [], onOutput: (part) => digest.take(part) });
      if (exitCode !== 0) return undefined;
    }
    const more = await this.#more();
    return more === undefined ? undefined : digest.end() + more;
  }
}

/** The digest of the output of save tools, computed as it comes: all rules of a node as one text would be 50 MB. */
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

/** Dates in comments and the counters of built-in chains change constantly. */
const withoutCounters = (lines: string): string => lines.replaceAll(/^#.*\n/gm, '').replaceAll(/ \[\d+:\d+\]$/gm, '');
