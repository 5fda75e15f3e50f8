import type { Tree } from './inbox/files.ts';
import { limits } from './limits.ts';
import type { Outcome } from './rollout/outcome.ts';

/** Endings that came of a rehearsal, and may be others when it is held again. */
const codes: ReadonlySet<string> = new Set(['NODE_CANNOT_REHEARSE', 'NODE_REFUSES_RULES']);

/**
 * What the node could not rehearse, or its kernel did not take, is let be for a while. A rehearsal loads the whole program: to hold one at
 * every scan would cost a node with many Services all of its time. Anything else is tried at once.
 */
export class RehearsalBackOff {
  readonly #monotonicMs: () => number;
  #last:
    | { readonly tree: Tree; readonly machine: string; readonly outcome: Outcome; readonly untilMs: number }
    | undefined;

  constructor(monotonicMs: () => number) {
    this.#monotonicMs = monotonicMs;
  }

  /** Takes how it ended to put a tree in, or to rehearse it. @param sinceMs when that began */
  ended(tree: Tree, machine: string, outcome: Outcome | undefined, sinceMs: number): void {
    const problems = outcome?.kind === 'refused' ? outcome.refusal.problems : [];
    if (!outcome || !problems.some(({ code }) => codes.has(code))) return this.forget();
    const nowMs = this.#monotonicMs();
    const pauseMs = Math.min((nowMs - sinceMs) * limits.rehearsePauseFactor, limits.rehearsePauseMsMax);
    this.#last = { tree, machine, outcome, untilMs: nowMs + pauseMs };
  }

  /** How it ended with the tree, while it is not its turn again. */
  of(tree: Tree, machine: string): Outcome | undefined {
    const last = this.#last;
    const isIt = last?.tree === tree && last.machine === machine && this.#monotonicMs() < last.untilMs;
    return isIt ? last.outcome : undefined;
  }

  /** A person asks for a try. */
  forget(): void {
    this.#last = undefined;
  }
}
