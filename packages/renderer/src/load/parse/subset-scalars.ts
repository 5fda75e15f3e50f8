import type { Json } from '../../render/kube.ts';
import { isAmbiguous } from './scalars.ts';

/** The text is not in the subset. Thrown inside the parser, returned by it. */
export const BAIL = Symbol('not of the subset');

const words = new Map<string, Json>([
  ...['null', 'Null', 'NULL', '~'].map((word) => [word, null] as const),
  ...['true', 'True', 'TRUE'].map((word) => [word, true] as const),
  ...['false', 'False', 'FALSE'].map((word) => [word, false] as const),
]);
const longestWord = 5;

/** At most fifteen digits, which a number represents exactly. */
const integer = /^(?:0|-?[1-9][0-9]{0,14})$/;
const decimal = /^-?[0-9]{1,10}\.[0-9]{1,5}$/;
/** Possible numbers in any YAML version; not IPv4 addresses and dates. */
const numberLike = /^[-+]?(?:\.?[0-9][0-9_]*(?:\.[0-9_]*)?(?:[eE][-+]?[0-9]*)?|0[xXoObB][0-9a-fA-F_]*|\.(?:inf|nan))$/i;

/**
 * A plain scalar as YAML 1.2 core reads it.
 *
 * @param raw the scalar without surrounding spaces and comment.
 * @throws BAIL unless it is clearly a string, null, boolean, integer or simple decimal, in YAML 1.1 as well.
 */
export function plainScalar(raw: string): null | boolean | number | string {
  const first = raw.charCodeAt(0);
  if (isLetter(first)) {
    if (raw.length > longestWord) return plainText(raw);
    const word = words.get(raw);
    if (word !== undefined) return word as null | boolean;
  } else if (isDigit(first) || isSignOrDot(first)) {
    if (integer.test(raw)) return Number(raw);
    if (decimal.test(raw) && !raw.startsWith('-0')) return Number(raw);
    if (numberLike.test(raw) || raw === '-' || raw.startsWith('- ')) throw BAIL;
  } else if (raw === '~') {
    return null;
  } else if (!isPlainStart(first)) {
    throw BAIL;
  }
  if (isAmbiguous(raw)) throw BAIL;
  return plainText(raw);
}

/** `: `, or a colon at the end, would start a nested map. */
function plainText(raw: string): string {
  if (raw.includes(': ') || raw.endsWith(':')) throw BAIL;
  return raw;
}

/** `{}` and `[]`; undefined for everything else. */
export function emptyFlow(raw: string): Json | undefined {
  if (raw === '{}') return {};
  if (raw === '[]') return [];
  return undefined;
}

/** The offset after the closing quote of the quoted scalar at `start`; -1 if there is none. */
export function quotedEnd(text: string, start: number): number {
  const quote = text.charAt(start);
  if (quote !== '"' && quote !== "'") return -1;
  for (let close = text.indexOf(quote, start + 1); close >= 0; close = text.indexOf(quote, close + 1)) {
    if (quote === '"' && isEscaped(text, close)) continue;
    if (quote === '"' || text.charAt(close + 1) !== quote) return close + 1;
    close++;
  }
  throw BAIL;
}

function isEscaped(text: string, at: number): boolean {
  let backslashes = 0;
  while (text.charAt(at - 1 - backslashes) === '\\') backslashes++;
  return backslashes % 2 === 1;
}

/**
 * The value of a quoted scalar, in a parent at column `indent`. Only JSON's escapes are supported, which YAML shares, and none in
 * multi-line scalars; line breaks become spaces (YAML 1.2.2, 7.3).
 */
export function unquote(quoted: string, indent: number): string {
  const inner = quoted.slice(1, -1);
  const text = inner.includes('\n') ? foldQuoted(inner, indent) : inner;
  if (quoted.startsWith("'")) return text.replaceAll("''", "'");
  return text.includes('\\') ? unescape(quoted) : text;
}

function foldQuoted(inner: string, indent: number): string {
  const lines = inner.split('\n');
  const last = lines.length - 1;
  const pieces = lines.map((line, index) => {
    const piece = index === 0 ? line : line.slice(indentOf(line, indent));
    if (piece === '') throw BAIL;
    return index === last ? piece : piece.replace(/ +$/, '');
  });
  if (inner.includes('\\')) throw BAIL;
  return pieces.join(' ');
}

/** The indentation of a line, which must be deeper than its parent's and followed by content. */
function indentOf(line: string, parent: number): number {
  const indent = line.search(/[^ ]/);
  if (indent <= parent) throw BAIL;
  return indent;
}

/** Surrogates and escapes of YAML alone are left to the general parser. */
function unescape(quoted: string): string {
  if (/\\u[dD][89a-fA-F]/.test(quoted)) throw BAIL;
  try {
    return JSON.parse(quoted) as string;
  } catch {
    throw BAIL;
  }
}

function isLetter(code: number): boolean {
  return (code >= 0x61 && code <= 0x7a) || (code >= 0x41 && code <= 0x5a);
}

function isDigit(code: number): boolean {
  return code >= 0x30 && code <= 0x39;
}

function isSignOrDot(code: number): boolean {
  return code === 0x2b || code === 0x2e || code === 0x2d;
}

/** Many characters may start a plain scalar; only the common unambiguous ones are accepted here. */
function isPlainStart(code: number): boolean {
  return code === 0x2f || code === 0x5f || code === 0x24 || code === 0x28 || code >= 0xa1;
}
