/** What a search asks about one place of a history; `skip`: nothing can be said there. */
type Answer<Skip> = { readonly key: string } | { readonly skip: Skip };

/** The place where a history changes from what it was at its start to what it is at its end. */
export interface Change<Skip> {
  /** The last place that is not as the end. */
  readonly before: number;
  /** The first place after it that is as the end. */
  readonly after: number;
  /** Places between `before` and `after`, which were skipped or, in a stretch of many of these, not asked about; any of them, or `after`, made the change. */
  readonly between: readonly number[];
  /** All places that were skipped. */
  readonly skipped: readonly { readonly at: number; readonly why: Skip }[];
  /** Keys that are neither that of the start nor that of the end: there are several changes, and this is the last of those seen. */
  readonly others: readonly string[];
}

/** After so many places in a row about which nothing can be said the search ends with the range it has. */
const skipsMax = 64;

/**
 * Halves a history until the change is found, like `git bisect` with `skip`: of n places about log2(n) are asked.
 * @param last the last place; the first is 0. Their keys must differ
 * @param ask about a place between 0 and `last`
 */
export function findChange<Skip>(
  last: number,
  ends: { readonly start: string; readonly end: string },
  ask: (at: number) => Answer<Skip>,
): Change<Skip> {
  let [before, after, inRow] = [0, last, 0];
  const skipped = new Map<number, Skip>();
  const others = new Set<string>();
  while (inRow < skipsMax) {
    const at = next(before, after, skipped);
    if (at === undefined) break;
    const answer = ask(at);
    if ('skip' in answer) {
      skipped.set(at, answer.skip);
      inRow++;
      continue;
    }
    inRow = 0;
    if (answer.key === ends.end) after = at;
    else before = at;
    if (answer.key !== ends.end && answer.key !== ends.start) others.add(answer.key);
  }
  return {
    before,
    after,
    between: Array.from({ length: after - before - 1 }, (_, index) => before + 1 + index),
    skipped: [...skipped].map(([at, why]) => ({ at, why })).toSorted((a, b) => a.at - b.at),
    others: [...others],
  };
}

/**
 * The middle or, where it is skipped, a quarter, then eighths and so on: a stretch about which nothing can be said is left after few
 * questions. Undefined when all places between the two are skipped.
 */
function next(before: number, after: number, skipped: ReadonlyMap<number, unknown>): number | undefined {
  const length = after - before;
  for (let parts = 2; parts < 4 * length; parts *= 2)
    for (let odd = 1; odd < parts; odd += 2) {
      const at = before + Math.floor((length * odd) / parts);
      if (at > before && !skipped.has(at)) return at;
    }
  return undefined;
}
