/** The values that only one of two lists has. */
export interface ListDifference<T> {
  readonly removed: readonly T[];
  readonly added: readonly T[];
}

/**
 * Compares two lists without repeats by identity. Equal positions cost one comparison, so that a list in which few values were replaced,
 * which is the usual case, needs no index.
 */
export function changedObjects<T extends object>(before: readonly T[], after: readonly T[]): ListDifference<T> {
  if (before === after) return { removed: [], added: [] };
  const removed: T[] = [];
  const added: T[] = [];
  for (let at = 0; at < Math.max(before.length, after.length); at++) {
    const [old, next] = [before[at], after[at]];
    if (old === next) continue;
    if (old !== undefined) removed.push(old);
    if (next !== undefined) added.push(next);
  }
  // Behind an object that is gone, all others have moved.
  const [gone, come] = [new Set(removed), new Set(added)];
  return { removed: removed.filter((one) => !come.has(one)), added: added.filter((one) => !gone.has(one)) };
}
