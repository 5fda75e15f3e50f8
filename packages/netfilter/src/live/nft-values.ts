import { isInCidr } from '../rules/cidr.ts';
import { parseAddress } from '../rules/address.ts';
import { networkIn, withoutDots } from './tests.ts';

/** Values of libnftables-json(5): scalars, prefixes, ranges, and concatenations of these. */

export type Json = Readonly<Record<string, unknown>>;
export const objectOf = (value: unknown): Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : {};
export const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
export const textOf = (value: unknown): string =>
  typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean' ? String(value) : '';

/** One part of an element: a value, a network, or a range of numbers. */
interface ElementPart {
  readonly text: string;
  readonly holds: ((value: string) => boolean) | undefined;
  readonly isRead: boolean;
}

/** Elements of a set, or the keys of a map, with their values. */
export class Elements {
  readonly #exact = new Map<string, unknown>();
  readonly #wide: { readonly parts: readonly ElementPart[]; readonly value: unknown }[] = [];
  /** The value of the element `*`, which holds every key that no other element holds. */
  #catchall: unknown;
  /** The first element that no packet is compared with, such as a network of marks; undefined: all are read. */
  readonly unread: string | undefined;
  /** The parts of each element, for what they say of sources, and whether one holds a value. */
  readonly all: {
    readonly parts: readonly string[];
    readonly holds: (index: number, value: string) => boolean;
    /** Whether a part is a network, a range or a pattern. */
    readonly isWide: (index: number) => boolean;
    readonly value: unknown;
  }[] = [];

  /** @param elements of `elem` or `set` @param isMap each is a pair */
  constructor(elements: readonly unknown[], isMap: boolean) {
    for (const element of elements) {
      const [key, value] = isMap ? listOf(element) : [element, true];
      const bare = 'elem' in objectOf(key) ? objectOf(objectOf(key)['elem'])['val'] : key;
      const concat = objectOf(bare)['concat'];
      if (bare === '*') {
        this.#catchall = value;
        continue;
      }
      const parts = (Array.isArray(concat) ? concat : [bare]).map(partOf);
      const holds = (index: number, given: string): boolean => isHeld(parts[index], given);
      this.unread ??= parts.find(({ isRead }) => !isRead)?.text;
      const isWide = (index: number): boolean => parts[index]?.holds !== undefined;
      this.all.push({ parts: parts.map(({ text }) => text), holds, isWide, value });
      if (parts.every((part) => part.holds === undefined))
        this.#exact.set(parts.map(({ text }) => text).join(' . '), value);
      else this.#wide.push({ parts, value });
    }
  }

  /** How many elements are compared one by one: those with networks, ranges or patterns. */
  get wide(): number {
    return this.#wide.length;
  }

  /** The elements by some of their parts, as `10.96.0.1 . tcp`; under `widePart` those for which one of these is wide. */
  byParts(indexes: readonly number[]): ReadonlyMap<string, Elements['all']> {
    return Map.groupBy(this.all, ({ parts, isWide }) =>
      indexes.some(isWide) ? widePart : indexes.map((index) => parts[index] ?? '').join(' . '),
    );
  }

  /** The value of the element that holds this key; undefined: none does. */
  find(key: readonly string[]): unknown {
    const exact = this.#exact.get(key.join(' . '));
    if (exact !== undefined) return exact;
    const wide = this.#wide.find(({ parts }) => parts.every((part, at) => isHeld(part, key[at] ?? '')));
    return wide ? wide.value : this.#catchall;
  }
}

/** No key of elements. */
export const widePart = '*';

/** The right side of a match: a value, a list of states, or an anonymous set. */
export function elementsOf(right: unknown): Elements {
  const set = objectOf(right)['set'];
  return new Elements(Array.isArray(set) ? set : Array.isArray(right) ? right : [right], false);
}

const isHeld = (part: ElementPart | undefined, value: string): boolean =>
  part !== undefined && (part.holds ? part.holds(value) : part.text === value);

function partOf(value: unknown): ElementPart {
  const { prefix, range } = objectOf(value);
  if (prefix !== undefined) {
    const text = `${textOf(objectOf(prefix)['addr'])}/${textOf(objectOf(prefix)['len'])}`;
    const network = networkIn(text);
    return {
      text,
      isRead: network !== undefined,
      holds: (one) => {
        const address = parseAddress(one);
        return network !== undefined && address !== undefined && isInCidr(address, network);
      },
    };
  }
  if (Array.isArray(range)) {
    const [low, high] = range.map(textOf) as [string, string];
    const isRead = [low, high].every((end) => /^\d+$/.test(end) || parseAddress(end) !== undefined);
    return {
      text: `${low}-${high}`,
      isRead,
      holds: (one) => compareValues(low, one) <= 0 && compareValues(one, high) <= 0,
    };
  }
  const text = canonical(textOf(value));
  return {
    text,
    isRead: true,
    holds: text.endsWith('*') ? (one): boolean => one.startsWith(text.slice(0, -1)) : undefined,
  };
}

/** Addresses in one spelling. */
const canonical = (text: string): string =>
  text.includes(':') ? (parseAddress(withoutDots(text))?.text ?? text) : text;

/** Numbers, or addresses by their words. */
function compareValues(a: string, b: string): number {
  const [one, other] = [parseAddress(a), parseAddress(b)];
  if (!one || !other) return Number(a) - Number(b);
  const at = one.words.findIndex((word, index) => word !== other.words[index]);
  return at < 0 ? 0 : (one.words[at] ?? 0) - (other.words[at] ?? 0);
}
