/**
 * Appends items to a list. Items passed as arguments of `push` are on the stack, which fails with "Maximum call stack size exceeded" at about
 * 120,000 items; the input decides how many there are.
 */
export function addAll<T>(list: T[], items: readonly T[]): void {
  // Not `for … of`, which makes an object for each item where V8 has no optimising compiler.
  for (let at = 0; at < items.length; at++) list.push(items[at] as T);
}
