/**
 * Adds items to the end of a list. `addAll(list, items)` puts each item on the stack: 120,000 of them end the program with "Maximum call
 * stack size exceeded", and how many there are is up to whoever wrote the input.
 */
export function addAll<T>(list: T[], items: Iterable<T>): void {
  for (const item of items) list.push(item);
}
