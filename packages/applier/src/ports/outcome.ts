import { type ExitCode, exitCodes } from '@sluice/cli';
import type { Generation, PartialRelease } from './journal.ts';
import type { Refusal } from './refusal.ts';

/** All outcomes of putting a bundle into the kernel. */
export type Outcome =
  /** Nothing was touched: the bundle is not for this node, or this node cannot run it. */
  | { readonly kind: 'refused'; readonly refusal: Refusal }
  /** The kernel already holds the bundle. */
  | {
      readonly kind: 'same';
      readonly generation: Generation;
      readonly waitsMs?: number;
      readonly leaving?: readonly string[];
    }
  | {
      readonly kind: 'confirmed';
      readonly generation: Generation;
      readonly steps: number;
      /** The last-endpoint delay that is left; then the bundle must be put in again. */
      readonly waitsMs?: number;
      /** The frontends that lose their last endpoint then, `ipv4 tcp 203.0.113.9 80`. */
      readonly leaving?: readonly string[];
      /** The probes that failed before and still fail. */
      readonly failing?: readonly string[];
      /** Why the journal could not be written: the next process returns to the generation in the journal. */
      readonly unwritten?: string;
    }
  | {
      /** The previous rules are in the kernel again. */
      readonly kind: 'rolled-back';
      readonly because: string;
      /** For its surroundings, such as a tool that did not run: the bundle is not to blame, and is tried again. */
      readonly again?: true;
    }
  /** The rollback, or the end of a confirmed change, could not be tried; the change is open, and its end is tried again. */
  | { readonly kind: 'pending'; readonly because: string; readonly rollback: string }
  /** The node is halted: the kernel refuses the previous rules. Manual intervention is required. */
  | { readonly kind: 'held'; readonly because: string; readonly rollback: string };

export { exitCodes };

/** The log level and exit code of an outcome. */
interface Rating {
  readonly level: 'info' | 'warn' | 'error' | 'fatal';
  readonly exitCode: ExitCode;
}

/** A new kind of outcome does not compile until it is rated. */
const ratings = {
  refused: { level: 'warn', exitCode: exitCodes.refused },
  same: { level: 'info', exitCode: exitCodes.done },
  confirmed: { level: 'info', exitCode: exitCodes.done },
  'rolled-back': { level: 'error', exitCode: exitCodes.rolledBack },
  pending: { level: 'error', exitCode: exitCodes.problem },
  held: { level: 'fatal', exitCode: exitCodes.halted },
} as const satisfies Record<Outcome['kind'], Rating>;

/** That a generation lacks Services is a finding, at each look. */
export function rateOutcome(outcome: Outcome): Rating {
  return partialOf(outcome) ? { level: 'error', exitCode: exitCodes.different } : ratings[outcome.kind];
}

/** What the active generation of an outcome lacks; undefined: nothing, or there is none. */
export const partialOf = (outcome: Outcome): PartialRelease | undefined =>
  outcome.kind === 'same' || outcome.kind === 'confirmed' ? outcome.generation.partial : undefined;

/** What a partial generation lacks, and why. */
export const describePartial = ({ of, services, because }: PartialRelease): string =>
  `version ${of} without ${services.join(', ')}, which stay as before: ${because}`;

/** One line for people. */
export function describe(outcome: Outcome): string {
  switch (outcome.kind) {
    case 'refused':
      return `refused: ${outcome.refusal.problems.length} problem(s), nothing was touched`;
    case 'same':
      return `same: the kernel already runs version ${outcome.generation.version} (generation ${outcome.generation.number})${partialNote(outcome)}${delayNote(outcome)}`;
    case 'confirmed':
      return `confirmed${outcome.failing ? ` with failing probes (${outcome.failing.join(', ')})` : ''}: version ${outcome.generation.version} is generation ${outcome.generation.number} (${outcome.steps} steps)${partialNote(outcome)}${delayNote(outcome)}`;
    case 'rolled-back':
      return `rolled back to the previous rules: ${outcome.because}${outcome.again ? '; it is tried again' : ''}`;
    case 'pending':
      return `the change could not be ended yet, which is tried again: ${outcome.because} (${outcome.rollback})`;
    case 'held':
      return `halted, manual intervention required: ${outcome.because} (rollback: ${outcome.rollback})`;
  }
}

/** Without the time, so that the text does not change while it waits. */
const delayNote = ({ waitsMs }: { readonly waitsMs?: number }): string =>
  waitsMs === undefined ? '' : '; the last endpoint of a Service is removed later';

const partialNote = (outcome: Outcome): string => {
  const partial = partialOf(outcome);
  return partial ? `; partial: ${describePartial(partial)}` : '';
};
