import type { RuleBody, TreeChain } from './program.ts';
import { printChance } from '../../rules/parts.ts';
import { certain } from '../../rules/rule.ts';
import { type Carved, carve, type TreeBranch } from './carve.ts';

/** Above this many endpoints a Service's chain jumps to groups of them. */
const endpointsMax = 32;

type AddGroup = (rules: readonly string[], height: number) => TreeChain;

/**
 * Puts the endpoints of a Service's chain into groups, where they are many: a new connection then traverses tens of rules instead of
 * hundreds. A group of s out of the r remaining endpoints is chosen with probability s/r, and one endpoint of it with 1/s, so each
 * endpoint keeps 1/N.
 *
 * Groups are formed by the endpoints' chain names, which are hashes: one endpoint more rewrites only the few groups on its path.
 * Affinity rules (`-m recent`) stay in the chain: any endpoint may remember the client, so all of them are tested.
 *
 * @param bodies of one chain, in order
 * @param add makes the chain of a group
 */
export function groupEndpoints(bodies: readonly RuleBody[], add: AddGroup): readonly RuleBody[] {
  const first = bodies.findIndex(({ endpoint }) => endpoint !== undefined);
  const tail = first < 0 ? [] : bodies.slice(first);
  if (tail.length <= endpointsMax || !isEven(tail)) return bodies;
  const items = tail
    .map(({ endpoint, height }) => ({
      ...(endpoint as ChosenEndpoint),
      height,
      key: (endpoint as ChosenEndpoint).logical,
      weight: 1,
    }))
    .toSorted((a, b) => (a.key < b.key ? -1 : 1));
  return [
    ...bodies.slice(0, first),
    ...chooseOne(
      carve(items, () => true),
      add,
    ),
  ];
}

type ChosenEndpoint = NonNullable<RuleBody['endpoint']>;
type WeightedEndpoint = ChosenEndpoint & { readonly height: number; readonly key: string; readonly weight: number };

/** Whether the endpoints have equal shares: 1/n, 1/(n-1), …, 1. */
function isEven(bodies: readonly RuleBody[]): boolean {
  const names = new Set(bodies.map(({ endpoint }) => endpoint?.logical));
  if (names.size !== bodies.length) return false;
  return bodies.every(({ endpoint }, index) => {
    const even = certain / (bodies.length - index);
    return endpoint !== undefined && Math.abs(endpoint.chance - even) <= 1;
  });
}

function chooseOne(carved: Carved<WeightedEndpoint>, add: AddGroup): readonly RuleBody[] {
  if (carved.kind === 'leaf') {
    return carved.items.map(({ rule: { match, target }, height }, index) => ({
      text: `${match}${share(1, carved.items.length - index)}${target}`,
      height,
    }));
  }
  let left = carved.branches.reduce((sum, { size }) => sum + size, 0);
  return carved.branches.map((branch: TreeBranch<WeightedEndpoint>) => {
    const rules = chooseOne(branch.below, add);
    const group = add(
      rules.map(({ text }) => text),
      1 + Math.max(...rules.map(({ height }) => height)),
    );
    const text = `${share(branch.size, left)}-g ${group.name}`;
    left -= branch.size;
    return { text, height: group.height };
  });
}

/** The match with probability `size`/`left`, in the kernel's own unit of 2^-31; empty where it is 1. */
function share(size: number, left: number): string {
  if (size === left) return '';
  return `-m statistic --mode random --probability ${printChance(Math.round((size / left) * certain))} `;
}
