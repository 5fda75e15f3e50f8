import type { RuleHit } from '../packet/packet.ts';
import type { TraceFlow } from '../packet/flow.ts';
import { bitTestOf } from './bits.ts';
import { isPriority } from './nft-affinity.ts';
import { type Field, fieldOf, keysOf, type Spread } from './nft-fields.ts';
import { Elements, elementsOf, type Json, objectOf, textOf, widePart } from './nft-values.ts';
import type { Effect, LiveHook, LiveTest, SourceTest } from './rule.ts';
import { isLoopback, networkIn, not } from './tests.ts';

/** What a rule of a table may refer to. */
export interface NftContext {
  readonly sets: ReadonlyMap<string, NftSet>;
}

export interface NftSet {
  readonly elements: Elements;
  /** Packets fill it: who is in it is not known. Of those of session affinity: for how long, in seconds. */
  readonly fillsFor: number | undefined;
}

/** A rule that is being read. */
export interface Reading {
  readonly context: NftContext;
  /** Whether the table is kube-proxy's or Sluice's: sets that packets fill are those of session affinity there alone. */
  readonly isProxys: boolean;
  readonly tests: LiveTest[];
  readonly sources: SourceTest[];
  readonly effects: Effect[];
  recent: RuleHit['recent'];
  reason: string | undefined;
  unread: string | undefined;
  cost: number;
}

/** Notes why a rule is not understood; the first reason counts. */
export function refuse(reading: Reading, what: string): void {
  reading.unread ??= `${what} is not read`;
}

/** Reads a match into the tests of a rule. */
export function readMatch({ op, left, right }: Json, reading: Reading): void {
  const bits = bitTestOf(textOf(op), left, right);
  if (bits) {
    reading.tests.push(bits);
    return;
  }
  if (times.has(textOf(objectOf(objectOf(left)['meta'])['key']))) return refuse(reading, 'a test of the time');
  const compared = rangeOf(textOf(op), right);
  if (compared) return readMatch({ op: '==', left, right: compared }, reading);
  // `ct state ! established,related`: none of these.
  const isNegated = op === '!=' || op === '!';
  if (!['==', '!=', 'in', '!'].includes(textOf(op))) return refuse(reading, `operator ${textOf(op)}`);
  // A scheduler or another program may have set it before.
  if (isPriority(left) && !reading.isProxys) return refuse(reading, 'test of the priority');
  const concat = objectOf(left)['concat'];
  const fields = (Array.isArray(concat) ? concat : [left]).map(fieldOf);
  if (fields.some((field) => field === undefined)) return refuse(reading, `test of ${JSON.stringify(left)}`);
  const all = fields as readonly Field[];
  const named = typeof right === 'string' && right.startsWith('@') ? right.slice(1) : undefined;
  const set = named === undefined ? undefined : reading.context.sets.get(named);
  if (named !== undefined && set === undefined) return refuse(reading, `set ${named}`);
  if (named !== undefined && set?.fillsFor !== undefined && !reading.isProxys)
    return refuse(reading, `set ${named}, whose elements packets add or time removes,`);
  if (named !== undefined && set?.fillsFor !== undefined) {
    reading.recent = { action: 'rcheck', name: named, seconds: set.fillsFor };
    const remembered: LiveTest = (_flow, hook) => (hook.remembers === named ? 1 : 0);
    reading.tests.push(isNegated ? not(remembered) : remembered);
    return;
  }
  const elements = set?.elements ?? elementsOf(right);
  const odd = elements.unread ?? nameAmong(all, elements);
  if (odd !== undefined) return refuse(reading, `element ${odd}`);
  reading.cost += elements.wide;
  addTest(all, elements, memberTest(all, elements, isNegated), reading);
}

const times: ReadonlySet<string> = new Set(['time', 'day', 'hour']);

/** The numbers that a comparison admits, of which ports are some: `>= 1024`. @returns undefined for another operator */
function rangeOf(op: string, right: unknown): Json | undefined {
  if (!isNumber(right)) return undefined;
  const value = Number(textOf(right));
  const ends = { '<': [0, value - 1], '<=': [0, value], '>': [value + 1, 65_535], '>=': [value, 65_535] }[op];
  return ends && { range: ends };
}

/** A name where packets have a number: `nft -S` prints ports as `http`. */
export const nameAmong = (fields: readonly (Field | Spread)[], { all }: Elements): string | undefined =>
  all.flatMap(({ parts }) =>
    parts.filter((text, at) => {
      const field = fields[at];
      return field !== undefined && 'isNumber' in field && !/^\d+(?:-\d+)?$/.test(text);
    }),
  )[0];

export const isNumber = (value: unknown): boolean => /^\d+$/.test(textOf(value));

/** A packet without a field, such as one of the other family, matches neither a test of it nor the negation. */
function memberTest(fields: readonly Field[], elements: Elements, isNegated: boolean): LiveTest {
  return (flow, hook) => {
    const keys = keysOf(fields, flow, hook);
    if (!keys) return isOfLoopback(fields, elements, hook) ? yesIf(isNegated) : undefined;
    if (keys.length === 0) return 0;
    return keys.some((key) => elements.find(key) !== undefined) === isNegated ? 0 : 1;
  };
}

const yesIf = (is: boolean): 0 | 1 => (is ? 1 : 0);

/** Whether a test asks for the node's own packets alone, by their interface. */
const isOfLoopback = ([field, ...more]: readonly Field[], { all }: Elements, hook: LiveHook): boolean =>
  hook.in === undefined &&
  more.length === 0 &&
  field?.asks === 'interface-of-source' &&
  all.length > 0 &&
  all.every(({ parts: [name = ''] }) => isLoopback(name));

function addTest(fields: readonly Field[], elements: Elements, test: LiveTest, { tests, sources }: Reading): void {
  const divides = sourcesNamed(fields, elements, test);
  if (divides) sources.push(divides);
  else tests.push(test);
}

/** Of what divides sources, the parts that elements name for packets to this destination; undefined: nothing does. */
export function sourcesNamed(
  fields: readonly (Field | Spread)[],
  elements: Elements,
  test: LiveTest,
): SourceTest | undefined {
  const at = fields.findIndex((field) => 'of' in field && field.asks !== undefined);
  const asked = fields[at];
  if (!asked || 'count' in asked) return undefined;
  const others = fields.flatMap((field, index) => (index === at || 'count' in field ? [] : [{ field, index }]));
  let index: ReadonlyMap<string, Elements['all']> | undefined;
  const named = (flow: TraceFlow, hook: LiveHook): readonly string[] => {
    // Tables have a hundred thousand elements, of which few are for one destination.
    index ??= elements.byParts(others.map((other) => other.index));
    const keys = keysOf(
      others.map((other) => other.field),
      flow,
      hook,
    );
    if (!keys) return [];
    const isHere = (key: readonly string[], { holds }: Elements['all'][number]): boolean =>
      others.every((other, place) => holds(other.index, key[place] ?? ''));
    const wide = index.get(widePart) ?? [];
    const found = keys.flatMap((key) => [
      ...(index?.get(key.join(' . ')) ?? []),
      ...wide.filter((element) => isHere(key, element)),
    ]);
    return found.map(({ parts }) => parts[at] ?? '');
  };
  if (asked.asks === 'interface-of-source')
    return {
      test,
      networks: () => [],
      interfaces: elements.all
        .map(({ parts }) => (parts[at] ?? '').replace(/\*$/, '0'))
        .filter((name) => name !== 'lo'),
    };
  return {
    test,
    // Of a range from one address to another its first stands for all. A table of both families names those of both.
    networks: (flow, hook) =>
      named(flow, hook)
        .map((text) => text.replace(/-.*$/, ''))
        .filter((text) => {
          const network = networkIn(text);
          return network?.family === hook.family && network.prefix > 0;
        }),
    interfaces: [],
  };
}
