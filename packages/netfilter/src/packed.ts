import { deflateRawSync, inflateRawSync } from 'node:zlib';

/** Chains per block: larger blocks take less memory, and reading one chain of them takes longer. */
const chainsPerBlock = 64;

/** Rules are so similar that the lowest level saves nearly as much as the highest. */
const compression = { level: 1 } as const;

/** All chains are packed anew when blocks have room for this many times the chains in use, plus `slackChains`. */
const wasteMax = 1.5;
const slackChains = 1024;

type ChainRules = readonly string[];

/**
 * The rules of some chains. A block is unpacked at the first read and stays so until `repackChains` is called; until then a chain keeps
 * the identity of its value.
 */
export class PackedBlock {
  /** One character per byte; undefined until first packed. */
  #packed: string | undefined;
  #read: readonly ChainRules[] | undefined;

  /** @param chains rules without line feeds, none of them empty */
  constructor(chains: readonly ChainRules[]) {
    this.#read = chains;
    opened.add(this);
  }

  get chains(): readonly ChainRules[] {
    if (this.#read) return this.#read;
    const text = inflateRawSync(Buffer.from(this.#packed ?? '', 'latin1')).toString('utf8');
    opened.add(this);
    return (this.#read = text.split('\0').map((rules) => (rules === '' ? none : rules.split('\n'))));
  }

  repack(): void {
    if (!this.#read) return;
    this.#packed ??= packed(this.#read.map((rules) => rules.join('\n')).join('\0'));
    this.#read = undefined;
  }
}

const packed = (text: string): string => deflateRawSync(Buffer.from(text), compression).toString('latin1');

const none: ChainRules = [];

const opened = new Set<PackedBlock>();

/**
 * Frees the memory of unpacked rules. Afterwards a chain read again is an equal value of another identity, so this must not be called
 * while programs are compared.
 */
export function repackChains(): void {
  for (const block of opened) block.repack();
  opened.clear();
}

/** The block of a chain, and its index there. */
export interface PackedPlace {
  readonly block: PackedBlock;
  readonly at: number;
}

export const rulesAt = ({ block, at }: PackedPlace): ChainRules => block.chains[at] ?? none;

/**
 * The chains of a table in a fifth of the memory. Reading a chain unpacks its block.
 *
 * At 10,000 Services with 50,000 endpoints the rules of 11,000 chains take 9 MB as strings and 1 MB packed; where each endpoint has a
 * chain, 23 MB and 4 MB. All of these are unpacked in 0.1 s.
 */
export class PackedChains implements ReadonlyMap<string, ChainRules> {
  /** By name, block number and index as one number, which takes a quarter of an object's memory. */
  readonly #places: ReadonlyMap<string, number>;
  readonly #blocks: readonly PackedBlock[];

  private constructor(places: ReadonlyMap<string, number>, blocks: readonly PackedBlock[]) {
    this.#places = places;
    this.#blocks = blocks;
  }

  /** @param chains rules as `-A CHAIN …`, without line feeds */
  static of(chains: ReadonlyMap<string, ChainRules>): PackedChains {
    const places = new Map<string, number>();
    return new PackedChains(places, pack(chains, places, 0));
  }

  /** A copy with some chains changed. @param changes undefined: the chain is deleted */
  with(changes: ReadonlyMap<string, ChainRules | undefined>): PackedChains {
    const places = new Map(this.#places);
    const fresh = new Map<string, ChainRules>();
    for (const [name, rules] of changes) {
      if (rules) fresh.set(name, rules);
      else places.delete(name);
    }
    const blocks = [...this.#blocks, ...pack(fresh, places, this.#blocks.length)];
    const next = new PackedChains(places, blocks);
    // A block stays whole as long as one of its chains is in use.
    return blocks.length * chainsPerBlock > places.size * wasteMax + slackChains ? PackedChains.of(next) : next;
  }

  get size(): number {
    return this.#places.size;
  }

  place(name: string): PackedPlace | undefined {
    const place = this.#places.get(name);
    if (place === undefined) return undefined;
    const block = this.#blocks[Math.trunc(place / chainsPerBlock)] as PackedBlock;
    return { block, at: place % chainsPerBlock };
  }

  get(name: string): ChainRules | undefined {
    const place = this.#places.get(name);
    return place === undefined ? undefined : this.#at(place);
  }

  #at(place: number): ChainRules {
    return this.#blocks[Math.trunc(place / chainsPerBlock)]?.chains[place % chainsPerBlock] ?? none;
  }

  has(name: string): boolean {
    return this.#places.has(name);
  }

  keys(): MapIterator<string> {
    return this.#places.keys();
  }

  *entries(): MapIterator<[string, ChainRules]> {
    for (const [name, place] of this.#places) yield [name, this.#at(place)];
  }

  *values(): MapIterator<ChainRules> {
    for (const place of this.#places.values()) yield this.#at(place);
  }

  [Symbol.iterator](): MapIterator<[string, ChainRules]> {
    return this.entries();
  }

  forEach(callback: (rules: ChainRules, name: string, chains: ReadonlyMap<string, ChainRules>) => void): void {
    this.#places.forEach((place, name) => callback(this.#at(place), name, this));
  }
}

/** Packs chains and notes their places. @param first the number of the first block */
function pack(
  chains: ReadonlyMap<string, ChainRules>,
  places: Map<string, number>,
  first: number,
): readonly PackedBlock[] {
  const blocks: PackedBlock[] = [];
  let some: ChainRules[] = [];
  const close = (): void => {
    if (some.length > 0) blocks.push(new PackedBlock(some));
    some = [];
  };
  for (const [name, rules] of chains) {
    places.set(name, (first + blocks.length) * chainsPerBlock + some.length);
    some.push(rules);
    if (some.length === chainsPerBlock) close();
  }
  close();
  return blocks;
}
