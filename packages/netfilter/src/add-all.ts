/**
 * Appends items to a list. Items passed as arguments of `push` are on the stack, which fails with "Maximum call stack size exceeded" at about
 * 120,000 items; the input decides how many there are.
 */
export function addAll<T>(list: T[], items: Iterable<T>): void {
  for (const item of items) list.push(item);
}
