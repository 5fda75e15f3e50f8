import type { Tree } from '../inbox/files.ts';
import { pauseAfter, pauseBeforeRetry, paces, retries } from '../limits.ts';
import type { Outcome } from '../ports/outcome.ts';

/** Refusals that come from a rehearsal, or from probes before a release, and may differ at the next one. */
const codes: ReadonlySet<string> = new Set(['NODE_CANNOT_REHEARSE', 'NODE_REFUSES_RULES', 'NODE_RULES_UNSTEADY']);

/**
 * Delays the retry of a bundle that failed its rehearsal. A rehearsal starts many tools, and in layout `flat` loads the whole program: one per scan would
 * keep a node busy all the time. Other refusals are retried at once.
 */
export class RehearsalBackOff {
  readonly #monotonicMs: () => number;
  #last:
    | { readonly tree: Tree; readonly machine: string; readonly outcome: Outcome; readonly untilMs: number }
    | undefined;

  /** How often in a row a rehearsal could not run. */
  #unable = 0;

  constructor(monotonicMs: () => number) {
    this.#monotonicMs = monotonicMs;
  }

  /** Takes the outcome of applying or rehearsing a tree. @param sinceMs when that began */
  ended(tree: Tree, machine: string, outcome: Outcome | undefined, sinceMs: number): void {
    const problems = outcome?.kind === 'refused' ? outcome.refusal.problems : [];
    if (!outcome || !problems.some(({ code }) => codes.has(code))) return this.forget();
    const nowMs = this.#monotonicMs();
    const isUnable = problems.some(({ code }) => code === 'NODE_CANNOT_REHEARSE');
    // A tool that hung for a minute has used nothing: its release must not wait for as long as one that loaded rules for a minute.
    const mostMs = isUnable ? pauseBeforeRetry(this.#unable, retries.rehearsal) : Infinity;
    this.#unable = isUnable ? this.#unable + 1 : 0;
    const pauseMs = Math.min(pauseAfter(nowMs - sinceMs, paces.rehearsal), mostMs);
    this.#last = { tree, machine, outcome, untilMs: nowMs + pauseMs };
  }

  /** @returns the last outcome of the tree during its back-off, otherwise undefined */
  of(tree: Tree, machine: string): Outcome | undefined {
    const last = this.#last;
    const isIt = last?.tree === tree && last.machine === machine && this.#monotonicMs() < last.untilMs;
    return isIt ? last.outcome : undefined;
  }

  /** An operator asks for a retry now. */
  forget(): void {
    this.#last = undefined;
    this.#unable = 0;
  }
}
