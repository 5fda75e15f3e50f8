import { exitCodes } from '@sluice/cli';
import type { Generation, Refusal } from './ports.ts';

/** Every way in which putting a bundle into the kernel can end. */
export type Outcome =
  /** Nothing was touched: the bundle is not for this node or this node cannot run it. */
  | { readonly kind: 'refused'; readonly refusal: Refusal }
  /** The kernel already is what the bundle says. */
  | { readonly kind: 'same'; readonly generation: Generation; readonly waitsMs?: number }
  | {
      readonly kind: 'confirmed';
      readonly generation: Generation;
      readonly steps: number;
      /** So long the last endpoints of Services stay that the bundle does not have any more; then it is to be put in again. */
      readonly waitsMs?: number;
      /** The probes that failed before it and fail still. */
      readonly failing?: readonly string[];
      /** Why the journal does not say so: the next process goes back to what it says. */
      readonly unwritten?: string;
    }
  /** The rules from before are back. */
  | { readonly kind: 'rolled-back'; readonly because: string }
  /** The rules from before could not be brought back: a person must look. */
  | { readonly kind: 'held'; readonly because: string; readonly rollback: string };

export { exitCodes };

/** How each ending is logged and what the process ends with. A new ending does not compile until it is rated. */
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
      return `same: the kernel already runs version ${outcome.generation.version} (generation ${outcome.generation.number})${told(outcome)}`;
    case 'confirmed':
      return `confirmed${outcome.failing ? ` with failing probes (${outcome.failing.join(', ')})` : ''}: version ${outcome.generation.version} is generation ${outcome.generation.number} (${outcome.steps} steps)${told(outcome)}`;
    case 'rolled-back':
      return `rolled back, the rules from before are in place: ${outcome.because}`;
    case 'held':
      return `held, a person must look: ${outcome.because}; and the way back failed: ${outcome.rollback}`;
  }
}

/** Without how long: what lasts is said once. */
const told = ({ waitsMs }: { readonly waitsMs?: number }): string =>
  waitsMs === undefined ? '' : '; the last endpoint of a Service goes later';
