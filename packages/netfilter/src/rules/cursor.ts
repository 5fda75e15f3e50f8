import type { Family } from '../family.ts';
import type { Rule, Test, TransportProtocol } from './rule.ts';
import type { Word } from './words.ts';

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/** The source of the text: a bundle's files, or a linked program, which may also have forms that only linkers write. */
export type Dialect = 'bundle' | 'program';

/** The state of reading a rule line. */
export interface Cursor {
  readonly words: readonly Word[];
  /** The index of the next word. */
  at: number;
  /** The family of the first address or option that has one; later ones must agree. */
  family: Family | undefined;
  readonly dialect: Dialect;
  readonly rule: Mutable<Rule> & { readonly matches: Rule['matches'][number][] };
}

/** The error of a line, as a clause; undefined without an error. */
export type GrammarError = string | undefined;

/** Takes the next word. Returns `''` for a quoted word and at the end of the line. */
export function take(cursor: Cursor): string {
  const word = cursor.words[cursor.at++];
  return word && !word.quoted ? word.text : '';
}

/** Takes the words of `expected` if they are next. */
export function accept(cursor: Cursor, ...expected: readonly string[]): boolean {
  const found = expected.every((text, index) => {
    const word = cursor.words[cursor.at + index];
    return word?.text === text && !word.quoted;
  });
  if (found) cursor.at += expected.length;
  return found;
}

/** Records the family of the line; returns an error when it has the other one. */
export function agreeFamily(cursor: Cursor, family: Family, text: string): GrammarError {
  cursor.family ??= family;
  return cursor.family === family ? undefined : `${text} does not belong to family ${cursor.family}`;
}

/** Sets a field of the rule that may be set once. */
export function setOnce(cursor: Cursor, field: 'source' | 'destination' | 'in' | 'out', test: Test): GrammarError {
  if (cursor.rule[field]) return `${field} is given twice`;
  cursor.rule[field] = test;
  return undefined;
}

const protocols: ReadonlySet<string> = new Set<TransportProtocol>(['tcp', 'udp', 'sctp']);

/** Whether a text is the name of a protocol with ports, as iptables spells it. */
export function isTransport(text: string): text is TransportProtocol {
  return protocols.has(text);
}
