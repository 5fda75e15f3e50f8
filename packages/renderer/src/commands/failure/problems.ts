import type { Problem } from '@sluice/netfilter';

/** True when a problem prevents writing. */
export function isStopped(problems: readonly Problem[], strict = false): boolean {
  return problems.some(({ level }) => level === 'error' || (strict && level === 'warning'));
}

/**
 * Joins the problems of reading and rendering. After an error in the input, `DETECTOR_MISSING` is left out: the missing setting may be
 * in the part that could not be read.
 */
export function joinProblems(read: readonly Problem[], rendered: readonly Problem[]): readonly Problem[] {
  return [...read, ...(isStopped(read) ? rendered.filter(({ code }) => code !== 'DETECTOR_MISSING') : rendered)];
}
