/**
 * For short lists that mostly are sorted already: sorting takes several times the memory of the list.
 * @returns the list itself if it is sorted, or a sorted one
 */
export function sortShort<T>(list: readonly T[], compare: (a: T, b: T) => number): readonly T[] {
  for (let at = 1; at < list.length; at++)
    if (compare(list[at - 1] as T, list[at] as T) > 0) return list.toSorted(compare);
  return list;
}
