/**
 * An order of chains in which each stands behind all that its rules lead to. Chains that lead in a circle, or into one, have
 * no such order and are left out; the kernel refuses a table that has any.
 * @param targets for each chain, the chains that its rules lead to; each of these must be a key
 */
export function calleesFirst(targets: ReadonlyMap<string, readonly string[]>): readonly string[] {
  const waiting = new Map<string, number>();
  const sources = new Map<string, string[]>();
  const done: string[] = [];
  for (const [chain, next] of targets) {
    waiting.set(chain, next.length);
    if (next.length === 0) done.push(chain);
    for (const target of next) {
      const known = sources.get(target);
      if (known) known.push(chain);
      else sources.set(target, [chain]);
    }
  }
  // From the chains that lead nowhere backwards, in a list that grows: no recursion, so no depth to fear.
  for (const chain of done) {
    for (const source of sources.get(chain) ?? []) {
      const left = (waiting.get(source) ?? 0) - 1;
      waiting.set(source, left);
      if (left === 0) done.push(source);
    }
  }
  return done;
}

/**
 * Chains that lead in a circle, or into one; the kernel refuses a table that has any.
 * @param targets for each chain, the chains that its rules lead to
 * @returns their names in the order of `targets`; empty when every way through the chains ends
 */
export function chainsInCircle(targets: ReadonlyMap<string, readonly string[]>): readonly string[] {
  const ordered = new Set(calleesFirst(targets));
  return ordered.size === targets.size ? [] : [...targets.keys()].filter((chain) => !ordered.has(chain));
}
