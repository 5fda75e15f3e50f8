import { basename } from 'node:path';
import { limits } from '../limits.ts';
import type { Run } from './command.ts';

/**
 * Watches the tools that run, so that health can name one that hangs: a change that waits for it makes no progress, and tells nothing, until
 * its time limit is over.
 */
export class ToolWatch {
  readonly #monotonicMs: () => number;
  readonly #running = new Map<object, { readonly name: string; readonly sinceMs: number; readonly mostMs: number }>();

  constructor(monotonicMs: () => number) {
    this.#monotonicMs = monotonicMs;
  }

  /** Runs tools, and sees each of them. */
  through =
    (run: Run): Run =>
    async (command) => {
      const { file, timeoutMs = limits.commandTimeoutMs } = command;
      const key = {};
      // A tool that may take minutes, as conntrack with a million entries, is not suspected sooner.
      const mostMs = Math.max(limits.toolSlowMs, timeoutMs / 2);
      this.#running.set(key, { name: basename(file), sinceMs: this.#monotonicMs(), mostMs });
      try {
        return await run(command);
      } finally {
        this.#running.delete(key);
      }
    };

  /** Which tool has not ended for too long; undefined: none. */
  get slow(): string | undefined {
    const nowMs = this.#monotonicMs();
    for (const { name, sinceMs, mostMs } of this.#running.values())
      if (nowMs - sinceMs >= mostMs)
        return `${name} has not ended for ${Math.floor((nowMs - sinceMs) / 1000)} s; it is killed at its time limit, and its work is tried again`;
    return undefined;
  }
}
