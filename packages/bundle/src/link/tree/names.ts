import { hash } from 'node:crypto';
import { differing } from '../layered.ts';
import { PackedBlock, type PackedPlace, rulesAt } from '../packed.ts';
import type { TableProgram } from '../program.ts';
import type { TreeChain } from './program.ts';

/** Two characters of a-z and 0-9. */
const tags = 36 * 36;

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

/**
 * What a chain is: 128 bits of the SHA-256 of its stem and its rules.
 * @param stem the name without what the content decides: `SLU-SVC-NPX46M4PTMTKRN6Y`, or `SLUICE-T` for chains without a
 *   logical name
 * @param rules each as iptables-save prints it behind `-A <name> `, and a line feed
 */
export function digestOf(stem: string, rules: string): string {
  return hash('sha256', `${stem}\n${rules}`, 'hex').slice(0, 32);
}

/** The stem of a tagged chain by its name; undefined for other names. */
export function stemOf(name: string): string | undefined {
  const match = /^(SLUICE-[RT]|SLU-GRP|SLU-(?:SVC|SVL|EXT|FW|SEP)-[A-Z2-7]{16})(-[A-Z2-7]{16})?\.[0-9a-z]{2}$/.exec(
    name,
  );
  const hasHash = match?.[2] !== undefined;
  return match?.[1] !== undefined && hasHash === isNameless(match[1]) ? match[1] : undefined;
}

/** Chains without a logical name have 80 bits of their content instead. */
function isNameless(stem: string): boolean {
  return stem.startsWith('SLUICE-') || stem === 'SLU-GRP';
}

/** The name that a content asks for first. */
export function naturalName(stem: string, digest: string): string {
  return nameAt(stem, digest, 0);
}

/** Every name that a content may have, in the order in which they are tried. */
export function* namesFor(stem: string, digest: string): Generator<string> {
  for (let step = 0; step < tags; step++) yield nameAt(stem, digest, step);
}

function nameAt(stem: string, digest: string, step: number): string {
  const tag = (Number.parseInt(digest.slice(0, 8), 16) + step) % tags;
  const body = isNameless(stem) ? `${stem}-${hash16(digest)}` : stem;
  return `${body}.${tag.toString(36).padStart(2, '0')}`;
}

/** 20 hex digits as 16 characters of base 32. */
function hash16(digest: string): string {
  let text = '';
  for (let at = 8; at < 28; at += 5) {
    const bits = Number.parseInt(digest.slice(at, at + 5), 16);
    for (const shift of [15, 10, 5, 0]) text += alphabet[(bits >> shift) & 31];
  }
  return text;
}

/** No name is left for a chain: each of its 1,296 belongs to another content. */
export class NamesExhausted extends Error {
  override readonly name = 'NamesExhausted';
}

/** A chain as it is linked. Once its rules are packed it keeps of itself little more than the name. */
class LinkedChain implements TreeChain {
  readonly name: string;
  readonly height: number;
  /** Left out once it can be told from what is packed. */
  #digest: string | undefined;
  #rules: readonly string[] | PackedBlock;
  /** The place in a block. */
  #at = 0;

  constructor(name: string, digest: string, rules: readonly string[], height: number) {
    this.name = name;
    this.height = height;
    this.#digest = digest;
    this.#rules = rules;
  }

  get rules(): readonly string[] {
    return this.#rules instanceof PackedBlock ? rulesAt({ block: this.#rules, at: this.#at }) : this.#rules;
  }

  get digest(): string {
    return this.#digest ?? digestOfLines(this.name, stemOf(this.name) as string, this.rules);
  }

  get renamedDigest(): string | undefined {
    return this.#digest === undefined || isFirstChoice(this.name, this.#digest) ? undefined : this.#digest;
  }

  hold(rules: PackedPlace | readonly string[]): void {
    if ('block' in rules) {
      this.#rules = rules.block;
      this.#at = rules.at;
      if (this.renamedDigest === undefined) this.#digest = undefined;
    } else this.#rules = rules;
  }
}

type Chains = TableProgram['chains'];
const noChains: Chains = new Map();

/**
 * The chains of one table while it is being linked. It gives each content a name that no other content has, neither in this
 * program nor in the kernel.
 *
 * A tag has 1,296 values, so about one change in a thousand meets a name that is in use for the content before it. Then the
 * next tag is taken, and so on. A content that the kernel holds already keeps the name that it has there, whichever it is: so
 * a program that is linked again is the program that was loaded.
 */
export class ChainNamer {
  readonly chains = new Map<string, TreeChain>();
  readonly #taken: Chains;
  readonly #renamed: ReadonlyMap<string, string>;
  /** What the names of strays begin with. */
  readonly #renamedBodies: ReadonlySet<string>;

  /** @param taken the chains in the kernel; must not change afterwards */
  constructor(taken = noChains) {
    this.#taken = taken;
    this.#renamed = renamedOf(taken);
    this.#renamedBodies = new Set([...this.#renamed.values()].map(bodyOf));
  }

  /**
   * Adds a chain.
   * @param bodies its rules, each without `-A <name> `
   * @param height see `TreeChain`
   */
  add(stem: string, bodies: readonly string[], height: number): TreeChain {
    const digest = digestOf(stem, bodies.map((body) => `${body}\n`).join(''));
    const name = this.#nameOf(stem, digest, bodies);
    const known = this.chains.get(name);
    if (known) return known;
    const rules = bodies.map((body) => lineOf(name, body));
    const chain = new LinkedChain(name, digest, rules, height);
    this.chains.set(name, chain);
    return chain;
  }

  /** Adds chains that were made without knowing what names are taken. False, and nothing is added, when one needs another name. */
  adopt(chains: readonly TreeChain[]): boolean {
    for (const chain of chains) {
      const own = this.chains.get(chain.name);
      if (own && own !== chain && own.digest !== chain.digest) return false;
      const held = this.#taken.get(chain.name);
      if (held && !sameLines(held, chain.rules)) return false;
      // Read and digested only where it may be: this is asked of all chains of a program.
      const mayBeRenamed = this.#renamed.size > 0 && this.#renamedBodies.has(bodyOf(chain.name));
      if (mayBeRenamed && this.#renamed.has(chain.digest)) return false;
    }
    for (const chain of chains) this.chains.set(chain.name, chain);
    return true;
  }

  #nameOf(stem: string, digest: string, bodies: readonly string[]): string {
    const other = this.#renamed.get(digest);
    if (other !== undefined) return other;
    for (const name of namesFor(stem, digest)) {
      const own = this.chains.get(name)?.digest ?? digest;
      const held = this.#taken.get(name);
      if (own === digest && (!held || hasBodies(name, held, bodies))) return name;
    }
    throw new NamesExhausted(`${stem} has no tag left`);
  }
}

/** Joined, so that it is one string of its length and not a tree of parts: a program has 70,000 of these, or 160,000. */
const lineOf = (name: string, body: string): string => ['-A ', name, ' ', body].join('');

/** Whether two chains of one name have the same rules. */
export function sameLines(a: readonly string[], b: readonly string[]): boolean {
  return a === b || (a.length === b.length && a.every((line, at) => line === b[at]));
}

function hasBodies(name: string, lines: readonly string[], bodies: readonly string[]): boolean {
  const start = 4 + name.length;
  return lines.length === bodies.length && lines.every((line, at) => line.slice(start) === bodies[at]);
}

const renamed = new WeakMap<Chains, ReadonlyMap<string, string>>();

/**
 * By digest, the names of a table that are not the first choice of what they stand for.
 * @param like a table that shares chains with this one: only what differs is looked at
 */
export function renamedOf(table: Chains, like?: Chains): ReadonlyMap<string, string> {
  const known = renamed.get(table);
  if (known) return known;
  const found = new Map<string, string>();
  const names = like ? differing(like, table) : table.keys();
  if (like)
    for (const [digest, name] of renamedOf(like)) if (table.get(name) === like.get(name)) found.set(digest, name);
  for (const name of names) {
    const stem = stemOf(name);
    const lines = table.get(name);
    if (stem === undefined || lines === undefined) continue;
    const digest = digestOfLines(name, stem, lines);
    if (!isFirstChoice(name, digest)) found.set(digest, name);
  }
  renamed.set(table, found);
  return found;
}

/** The same for a table that holds these chains, whose digests are known. */
export function noteRenamed(table: Chains, chains: Iterable<TreeChain>): void {
  const found = new Map<string, string>();
  for (const { name, renamedDigest } of chains) if (renamedDigest !== undefined) found.set(renamedDigest, name);
  renamed.set(table, found);
}

/** A name without its tag. */
const bodyOf = (name: string): string => name.slice(0, -3);

const digestOfLines = (name: string, stem: string, lines: readonly string[]): string =>
  digestOf(stem, lines.map((line) => `${line.slice(4 + name.length)}\n`).join(''));

/** Whether the tag of a name is the first one that its content asks for. */
function isFirstChoice(name: string, digest: string): boolean {
  return Number.parseInt(digest.slice(0, 8), 16) % tags === Number.parseInt(name.slice(-2), 36);
}
