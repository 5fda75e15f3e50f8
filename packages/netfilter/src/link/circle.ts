import { appendTo } from '../maps.ts';
/**
 * Topological order: each chain comes after the chains that its rules jump to. Chains in a loop, or that lead into one, are left out;
 * the kernel refuses a table with a loop.
 * @param targets for each chain, the chains that its rules jump to; each of these must be a key
 */
export function calleesFirst(targets: ReadonlyMap<string, readonly string[]>): readonly string[] {
  const waiting = new Map<string, number>();
  const sources = new Map<string, string[]>();
  const done: string[] = [];
  for (const [chain, next] of targets) {
    waiting.set(chain, next.length);
    if (next.length === 0) done.push(chain);
    for (const target of next) appendTo(sources, target, chain);
  }
  // From the chains without jumps backwards, over a growing list: no recursion, so no limit of depth.
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
 * Chains in a loop, or that lead into one; the kernel refuses a table with a loop.
 * @param targets for each chain, the chains that its rules jump to
 * @returns their names in the order of `targets`; empty without a loop
 */
export function chainsInCircle(targets: ReadonlyMap<string, readonly string[]>): readonly string[] {
  const ordered = new Set(calleesFirst(targets));
  return ordered.size === targets.size ? [] : [...targets.keys()].filter((chain) => !ordered.has(chain));
}
