import { exitCodes } from '@sluice/cli';
import type { Generation } from './journal.ts';
import type { Refusal } from './refusal.ts';

/** All outcomes of putting a bundle into the kernel. */
export type Outcome =
  /** Nothing was touched: the bundle is not for this node, or this node cannot run it. */
  | { readonly kind: 'refused'; readonly refusal: Refusal }
  /** The kernel already holds the bundle. */
  | { readonly kind: 'same'; readonly generation: Generation; readonly waitsMs?: number }
  | {
      readonly kind: 'confirmed';
      readonly generation: Generation;
      readonly steps: number;
      /** The last-endpoint delay that is left; then the bundle must be put in again. */
      readonly waitsMs?: number;
      /** The probes that failed before and still fail. */
      readonly failing?: readonly string[];
      /** Why the journal could not be written: the next process returns to the generation in the journal. */
      readonly unwritten?: string;
    }
  /** The previous rules are in the kernel again. */
  | { readonly kind: 'rolled-back'; readonly because: string }
  /** The node is halted: the previous rules could not be restored. Manual intervention is required. */
  | { readonly kind: 'held'; readonly because: string; readonly rollback: string };

export { exitCodes };

/** The log level and exit code of each outcome. A new outcome does not compile until it is rated. */
export const rating = {
  refused: { level: 'warn', exitCode: exitCodes.refused },
  same: { level: 'info', exitCode: exitCodes.done },
  confirmed: { level: 'info', exitCode: exitCodes.done },
  'rolled-back': { level: 'error', exitCode: exitCodes.rolledBack },
  held: { level: 'fatal', exitCode: exitCodes.halted },
} as const satisfies Record<Outcome['kind'], { level: string; exitCode: number }>;

/** One line for people. */
export function describe(outcome: Outcome): string {
  switch (outcome.kind) {
    case 'refused':
      return `refused: ${outcome.refusal.problems.length} problem(s), nothing was touched`;
    case 'same':
      return `same: the kernel already runs version ${outcome.generation.version} (generation ${outcome.generation.number})${delayNote(outcome)}`;
    case 'confirmed':
      return `confirmed${outcome.failing ? ` with failing probes (${outcome.failing.join(', ')})` : ''}: version ${outcome.generation.version} is generation ${outcome.generation.number} (${outcome.steps} steps)${delayNote(outcome)}`;
    case 'rolled-back':
      return `rolled back to the previous rules: ${outcome.because}`;
    case 'held':
      return `halted, manual intervention required: ${outcome.because} (rollback: ${outcome.rollback})`;
  }
}

/** Without the time, so that the text does not change while it waits. */
const delayNote = ({ waitsMs }: { readonly waitsMs?: number }): string =>
  waitsMs === undefined ? '' : '; the last endpoint of a Service is removed later';
