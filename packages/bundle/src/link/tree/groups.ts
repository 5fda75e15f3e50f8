import { printChance } from '../../rules/parts.ts';
import { certain } from '../../rules/rule.ts';
import { type Carved, carve, type Way } from './carve.ts';
import type { TreeChain } from './program.ts';

/** A rule of a Service's chain, ready to be printed. */
export interface Body {
  /** Without `-A <name> `. */
  readonly text: string;
  /** `TreeChain.height` of the chain that it leads to; 0 for none. */
  readonly height: number;
  /** For a rule that leads to an endpoint with some probability and asks for nothing else. */
  readonly endpoint?: { readonly logical: string; readonly way: WayTo; readonly chance: number };
}

/** What stands before and behind the dice of a rule that leads to an endpoint: `-p tcp ` and `-j DNAT …`, or nothing and `-j <chain>`. */
export interface WayTo {
  readonly before: string;
  readonly behind: string;
}

/** Above this many endpoints a Service's chain leads to groups of them. */
const endpointsMax = 32;

type AddGroup = (rules: readonly string[], height: number) => TreeChain;

/**
 * The rules of a Service's chain with its endpoints in groups, where they are many: a new connection then walks tens of rules
 * instead of hundreds. A group of s out of the r endpoints that are left is taken with probability s/r, and one endpoint of
 * it with 1/s, so each endpoint keeps 1/N.
 *
 * Groups are formed by the endpoints' chain names, which are hashes: one endpoint more rewrites the few groups on its path.
 * Rules that ask whether a client is remembered are left as they are: any endpoint may remember it, so all are asked.
 *
 * @param bodies of one chain, in order
 * @param add makes the chain of a group
 */
export function groupEndpoints(bodies: readonly Body[], add: AddGroup): readonly Body[] {
  const first = bodies.findIndex(({ endpoint }) => endpoint !== undefined);
  const tail = first < 0 ? [] : bodies.slice(first);
  if (tail.length <= endpointsMax || !isEven(tail)) return bodies;
  const items = tail
    .map(({ endpoint, height }) => ({
      ...(endpoint as Endpoint),
      height,
      key: (endpoint as Endpoint).logical,
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

type Endpoint = NonNullable<Body['endpoint']>;
type Item = Endpoint & { readonly height: number; readonly key: string; readonly weight: number };

/** Whether each of the rules is left with an equal share: 1/n, 1/(n-1), …, 1. */
function isEven(bodies: readonly Body[]): boolean {
  const names = new Set(bodies.map(({ endpoint }) => endpoint?.logical));
  if (names.size !== bodies.length) return false;
  return bodies.every(({ endpoint }, index) => {
    const even = certain / (bodies.length - index);
    return endpoint !== undefined && Math.abs(endpoint.chance - even) <= 1;
  });
}

function chooseOne(carved: Carved<Item>, add: AddGroup): readonly Body[] {
  if (carved.kind === 'leaf') {
    return carved.items.map(({ way: { before, behind }, height }, index) => ({
      text: `${before}${share(1, carved.items.length - index)}${behind}`,
      height,
    }));
  }
  let left = carved.ways.reduce((sum, { size }) => sum + size, 0);
  return carved.ways.map((way: Way<Item>) => {
    const rules = chooseOne(way.below, add);
    const group = add(
      rules.map(({ text }) => text),
      1 + Math.max(...rules.map(({ height }) => height)),
    );
    const text = `${share(way.size, left)}-g ${group.name}`;
    left -= way.size;
    return { text, height: group.height };
  });
}

/** The match that holds for `size` of `left`, in the kernel's own unit of 2^-31; nothing where all are taken. */
function share(size: number, left: number): string {
  if (size === left) return '';
  return `-m statistic --mode random --probability ${printChance(Math.round((size / left) * certain))} `;
}
