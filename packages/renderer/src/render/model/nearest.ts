/**
 * The option that is most similar to a mistyped `text`.
 * @returns undefined when more than a third of the letters differ
 */
export function nearest(text: string, options: readonly string[]): string | undefined {
  const limit = Math.max(1, Math.floor(text.length / 3));
  let best: { option: string; distance: number } | undefined;
  for (const option of options) {
    const distance = distanceOf(text.toLowerCase(), option.toLowerCase(), limit);
    if (distance <= limit && distance < (best?.distance ?? Number.POSITIVE_INFINITY)) best = { option, distance };
  }
  return best?.option;
}

/** Levenshtein distance; above `limit` any number above it. */
function distanceOf(a: string, b: string, limit: number): number {
  if (Math.abs(a.length - b.length) > limit) return limit + 1;
  let previous = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = (previous[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      row.push(Math.min(replaced, (previous[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1));
    }
    previous = row;
  }
  return previous[b.length] ?? 0;
}
