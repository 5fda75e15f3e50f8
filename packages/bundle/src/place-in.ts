import { compareText } from '@sluice/netfilter';

/**
 * Where a text is in a sorted list, or belongs.
 * @param keyOf of each text, by which the list is sorted; left out: the text
 * @returns the first position whose text is not before this one
 */
export function placeIn(sorted: readonly string[], text: string, keyOf = (one: string): string => one): number {
  const key = keyOf(text);
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (compareText(keyOf(sorted[middle] ?? ''), key) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}
