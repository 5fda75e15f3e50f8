import { hash } from 'node:crypto';
import { differing } from '../../layered.ts';
import type { TableProgram } from '../program.ts';
import type { TreeChain } from './program.ts';

/** Two characters of a-z and 0-9. */
const tags = 36 * 36;

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

/**
 * The identity of a chain: 128 bits of the SHA-256 of its stem and its rules.
 * @param stem the part of the name that is independent of the rules: `SLU-SVC-NPX46M4PTMTKRN6Y`, or `SLUICE-T` for chains without a
 *   logical name
 * @param rules each as iptables-save prints it after `-A <name> `, and a line feed
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

/** Chains without a logical name have 80 bits of their digest instead. */
function isNameless(stem: string): boolean {
  return stem.startsWith('SLUICE-') || stem === 'SLU-GRP';
}

/** The first candidate of `namesFor`. */
export function naturalName(stem: string, digest: string): string {
  return nameAt(stem, digest, 0);
}

/** Every name that a chain of this digest may have, in order of preference. */
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

/** All 1,296 names of a chain are taken by chains with other rules. */
export class NamesExhausted extends Error {
  override readonly name = 'NamesExhausted';
}

/** A chain of a program that is being linked. */
class LinkedChain implements TreeChain {
  readonly name: string;
  readonly height: number;
  readonly digest: string;
  #rules: readonly string[];

  constructor(name: string, digest: string, rules: readonly string[], height: number) {
    this.name = name;
    this.height = height;
    this.digest = digest;
    this.#rules = rules;
  }

  get rules(): readonly string[] {
    return this.#rules;
  }

  get renamedDigest(): string | undefined {
    return isFirstChoice(this.name, this.digest) ? undefined : this.digest;
  }

  hold(rules: readonly string[]): void {
    this.#rules = rules;
  }
}

type TableChains = TableProgram['chains'];
const noChains: TableChains = new Map();

/**
 * The chains of one table while it is being linked. Each chain gets a name that no chain with other rules has, neither in this program
 * nor in the kernel.
 *
 * A tag has 1,296 values, so in about one change of a thousand the new rules of a chain have the tag of its old rules. Then the next free
 * tag is used. Rules that the kernel already has keep their chain's name: so a program that is linked again equals the loaded one.
 */
export class ChainNamer {
  readonly chains = new Map<string, TreeChain>();
  readonly #taken: TableChains;
  readonly #renamed: ReadonlyMap<string, string>;
  /** The names of renamed chains without tags. */
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

  /** Adds chains with natural names. Returns false, and adds none, when one of them needs another name. */
  adopt(chains: readonly TreeChain[]): boolean {
    for (const chain of chains) {
      const own = this.chains.get(chain.name);
      if (own && own !== chain && own.digest !== chain.digest) return false;
      const held = this.#taken.get(chain.name);
      if (held && !sameLines(held, chain.rules)) return false;
      // Called for all chains of a program, so digests are computed only where they matter.
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

/** `join` makes a flat string instead of a rope, which takes more memory: a program has 70,000 to 160,000 of these. */
const lineOf = (name: string, body: string): string => ['-A ', name, ' ', body].join('');

export function sameLines(a: readonly string[], b: readonly string[]): boolean {
  return a === b || (a.length === b.length && a.every((line, at) => line === b[at]));
}

function hasBodies(name: string, lines: readonly string[], bodies: readonly string[]): boolean {
  const start = 4 + name.length;
  return lines.length === bodies.length && lines.every((line, at) => line.slice(start) === bodies[at]);
}

const renamed = new WeakMap<TableChains, ReadonlyMap<string, string>>();

/**
 * By digest, the names of a table's renamed chains: those that do not have their natural name.
 * @param like a table that shares chains with this one: only the difference is examined
 */
export function renamedOf(table: TableChains, like?: TableChains): ReadonlyMap<string, string> {
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

/** Caches the result of `renamedOf` for a table of chains whose digests are known. */
export function noteRenamed(table: TableChains, chains: Iterable<TreeChain>): void {
  const found = new Map<string, string>();
  for (const { name, renamedDigest } of chains) if (renamedDigest !== undefined) found.set(renamedDigest, name);
  renamed.set(table, found);
}

/** A name without its tag. */
const bodyOf = (name: string): string => name.slice(0, -3);

const digestOfLines = (name: string, stem: string, lines: readonly string[]): string =>
  digestOf(stem, lines.map((line) => `${line.slice(4 + name.length)}\n`).join(''));

function isFirstChoice(name: string, digest: string): boolean {
  return Number.parseInt(digest.slice(0, 8), 16) % tags === Number.parseInt(name.slice(-2), 36);
}
