import { type ParityReport, resultOf } from '@sluice/bundle';

/**
 * What a change of a bundle makes different from an observed node: the differences of the changed bundle that the one before does not have.
 * Files of nodes in a repository grow old, and each change would show all that happened since.
 * @param before of the bundle before the change, about the same observation
 */
export function newSince(before: ParityReport, after: ParityReport): ParityReport {
  const known = new Set(before.differences.map(({ id }) => id));
  const differences = after.differences.filter(({ id }) => !known.has(id));
  const { coverage, result: _result, differences: all, ...rest } = after;
  return {
    ...rest,
    base: { version: before.version, known: all.length - differences.length },
    result: resultOf({ differences, coverage }),
    coverage,
    differences,
  };
}
