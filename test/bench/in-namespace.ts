import { networkInterfaces } from 'node:os';

/**
 * For scripts that load rules: never into the machine's own tables. A new network namespace has only loopback addresses.
 * @throws Error where there are others
 */
export function mustBeInNamespace(): void {
  const others = Object.values(networkInterfaces())
    .flat()
    .filter((one) => one?.internal === false);
  if (others.length === 0) return;
  throw new Error(
    "Cannot measure: this script loads rules, and this looks like the machine's own network. Run `./dev bench`, or put `unshare -n -m` before it",
  );
}
