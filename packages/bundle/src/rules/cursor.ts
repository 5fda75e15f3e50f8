import type { Family } from '../rulefile.ts';
import type { Rule, Test, TransportProtocol } from './rule.ts';
import type { Word } from './words.ts';

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/** Whose text is read: a bundle's files, or a linked program, which may also have what only linkers write. */
export type Dialect = 'bundle' | 'program';

/** A rule line that is being read. */
export interface Cursor {
  readonly words: readonly Word[];
  /** The index of the next word. */
  at: number;
  /** The family of the first thing that has one; everything after it must agree. */
  family: Family | undefined;
  readonly dialect: Dialect;
  readonly rule: Mutable<Rule> & { readonly matches: Rule['matches'][number][] };
}

/** What is wrong with a line, as a clause; undefined when nothing is. */
export type Complaint = string | undefined;

/** The next word, which must not be quoted; `''`, which is no word of the grammar, at the end of the line. */
export function take(cursor: Cursor): string {
  const word = cursor.words[cursor.at++];
  return word && !word.quoted ? word.text : '';
}

/** The next word without taking it. */
export function peek(cursor: Cursor): string {
  const word = cursor.words[cursor.at];
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

/** Notes that the line belongs to a family, and complains when it belongs to the other one. */
export function claim(cursor: Cursor, family: Family, text: string): Complaint {
  cursor.family ??= family;
  return cursor.family === family ? undefined : `${text} does not go with ${cursor.family}`;
}

/** Sets a field of the rule that may be set once. */
export function setOnce(cursor: Cursor, field: 'source' | 'destination' | 'in' | 'out', test: Test): Complaint {
  if (cursor.rule[field]) return `${field} is given twice`;
  cursor.rule[field] = test;
  return undefined;
}

const protocols: ReadonlySet<string> = new Set<TransportProtocol>(['tcp', 'udp', 'sctp']);

/** Whether a text is the name of a protocol with ports, as iptables spells it. */
export function isTransport(text: string): text is TransportProtocol {
  return protocols.has(text);
}
