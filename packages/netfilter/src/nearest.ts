import { compareText } from './problem.ts';

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

/** At most five names for a hint, those most similar to a mistyped `text` first, and the number of all. */
export function namesNear(text: string, names: readonly string[]): string {
  const distances = new Map(
    names.map((name) => [name, distanceOf(text.toLowerCase(), name.toLowerCase(), Number.POSITIVE_INFINITY)]),
  );
  const first = names
    .toSorted((a, b) => (distances.get(a) ?? 0) - (distances.get(b) ?? 0) || compareText(a, b))
    .slice(0, 5);
  return `${first.join(', ')}${names.length > first.length ? `, … (${names.length} in all)` : ''}`;
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
