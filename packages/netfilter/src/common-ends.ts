/** How many values two lists both begin with, and how many of the others they both end with. */
export function commonEnds<T>(
  before: readonly T[],
  after: readonly T[],
): { readonly head: number; readonly tail: number } {
  const least = Math.min(before.length, after.length);
  let head = 0;
  while (head < least && before[head] === after[head]) head += 1;
  let tail = 0;
  while (tail < least - head && before[before.length - 1 - tail] === after[after.length - 1 - tail]) tail += 1;
  return { head, tail };
}
