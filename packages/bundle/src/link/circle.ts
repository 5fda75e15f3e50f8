/**
 * Chains that lead in a circle, or into one; the kernel refuses a table that has any.
 * @param targets for each chain, the chains that its rules lead to
 * @returns their names in the order of `targets`; empty when every way through the chains ends
 */
export function chainsInCircle(targets: ReadonlyMap<string, readonly string[]>): readonly string[] {
  const waiting = new Map([...targets].map(([chain, next]) => [chain, next.length]));
  const sources = new Map<string, string[]>();
  for (const [chain, next] of targets) {
    for (const target of next) {
      const known = sources.get(target);
      if (known) known.push(chain);
      else sources.set(target, [chain]);
    }
  }
  // From the chains that lead nowhere backwards: what is never reached leads in a circle. No recursion, so no depth to fear.
  const done = [...waiting].filter(([, count]) => count === 0).map(([chain]) => chain);
  for (const chain of done) {
    for (const source of sources.get(chain) ?? []) {
      const left = (waiting.get(source) ?? 0) - 1;
      waiting.set(source, left);
      if (left === 0) done.push(source);
    }
  }
  return [...waiting].filter(([, count]) => count > 0).map(([chain]) => chain);
}
