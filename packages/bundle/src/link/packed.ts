import { deflateRawSync, inflateRawSync } from 'node:zlib';

/** So many chains are packed as one: more take less memory together, and longer to read one of them. */
const chainsPerBlock = 64;

/** Rules are alike, so the lowest level finds nearly all there is to find. */
const compression = { level: 1 } as const;

/** When so many times as many chains are packed as are left of them, and some more, all are packed anew. */
const wasteMax = 1.5;
const slackChains = 1024;

type Rules = readonly string[];

/**
 * The rules of some chains. They are packed when nobody works with them any more: what was read or is new stays as it is until
 * `letGoChains` is called, so a chain has the same value twice.
 */
export class PackedBlock {
  /** One character for each byte; left out until it is needed. */
  #packed: string | undefined;
  #read: readonly Rules[] | undefined;

  /** @param chains rules without line feeds, none of them empty */
  constructor(chains: readonly Rules[]) {
    this.#read = chains;
    opened.add(this);
  }

  get chains(): readonly Rules[] {
    if (this.#read) return this.#read;
    const text = inflateRawSync(Buffer.from(this.#packed ?? '', 'latin1')).toString('utf8');
    opened.add(this);
    return (this.#read = text.split('\0').map((rules) => (rules === '' ? none : rules.split('\n'))));
  }

  letGo(): void {
    if (!this.#read) return;
    this.#packed ??= packed(this.#read.map((rules) => rules.join('\n')).join('\0'));
    this.#read = undefined;
  }
}

const packed = (text: string): string => deflateRawSync(Buffer.from(text), compression).toString('latin1');

const none: Rules = [];

const opened = new Set<PackedBlock>();

/**
 * Says that chains were used: rules that were read of packed ones leave the memory. From then on the same chain has other values that are
 * equal, so not to be called while somebody works with programs.
 */
export function letGoChains(): void {
  for (const block of opened) block.letGo();
  opened.clear();
}

/** Where a chain is packed. */
export interface PackedPlace {
  readonly block: PackedBlock;
  readonly at: number;
}

/** The rules of the chain at a place. */
export const rulesAt = ({ block, at }: PackedPlace): Rules => block.chains[at] ?? none;

/**
 * The chains of a table, a fifth as large as their rules are. A chain is read with its neighbours when somebody asks for it.
 *
 * At 10,000 Services with 50,000 endpoints the rules of 11,000 chains take 9 MB as strings and 1 MB so; where each endpoint has a chain,
 * 23 MB and 4 MB. All of these are read in 0.1 s.
 */
export class PackedChains implements ReadonlyMap<string, Rules> {
  /** By name, the number of its block and its place there as one number: a quarter of an object for each. */
  readonly #places: ReadonlyMap<string, number>;
  readonly #blocks: readonly PackedBlock[];

  private constructor(places: ReadonlyMap<string, number>, blocks: readonly PackedBlock[]) {
    this.#places = places;
    this.#blocks = blocks;
  }

  /** @param chains rules as `-A CHAIN …`, without line feeds */
  static of(chains: ReadonlyMap<string, Rules>): PackedChains {
    const places = new Map<string, number>();
    return new PackedChains(places, pack(chains, places, 0));
  }

  /** The same with some chains changed. @param changes undefined: the chain goes */
  with(changes: ReadonlyMap<string, Rules | undefined>): PackedChains {
    const places = new Map(this.#places);
    const fresh = new Map<string, Rules>();
    for (const [name, rules] of changes) {
      if (rules) fresh.set(name, rules);
      else places.delete(name);
    }
    const blocks = [...this.#blocks, ...pack(fresh, places, this.#blocks.length)];
    const next = new PackedChains(places, blocks);
    // Of a block with one chain that is left the others stay, too.
    return blocks.length * chainsPerBlock > places.size * wasteMax + slackChains ? PackedChains.of(next) : next;
  }

  get size(): number {
    return this.#places.size;
  }

  /** Where a chain is packed. */
  place(name: string): PackedPlace | undefined {
    const place = this.#places.get(name);
    if (place === undefined) return undefined;
    const block = this.#blocks[Math.trunc(place / chainsPerBlock)] as PackedBlock;
    return { block, at: place % chainsPerBlock };
  }

  get(name: string): Rules | undefined {
    const place = this.#places.get(name);
    return place === undefined ? undefined : this.#at(place);
  }

  #at(place: number): Rules {
    return this.#blocks[Math.trunc(place / chainsPerBlock)]?.chains[place % chainsPerBlock] ?? none;
  }

  has(name: string): boolean {
    return this.#places.has(name);
  }

  keys(): MapIterator<string> {
    return this.#places.keys();
  }

  *entries(): MapIterator<[string, Rules]> {
    for (const [name, place] of this.#places) yield [name, this.#at(place)];
  }

  *values(): MapIterator<Rules> {
    for (const place of this.#places.values()) yield this.#at(place);
  }

  [Symbol.iterator](): MapIterator<[string, Rules]> {
    return this.entries();
  }

  forEach(callback: (rules: Rules, name: string, chains: ReadonlyMap<string, Rules>) => void): void {
    this.#places.forEach((place, name) => callback(this.#at(place), name, this));
  }
}

/** Packs chains and notes their places. @param first the number of the first block */
function pack(chains: ReadonlyMap<string, Rules>, places: Map<string, number>, first: number): readonly PackedBlock[] {
  const blocks: PackedBlock[] = [];
  let some: Rules[] = [];
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
