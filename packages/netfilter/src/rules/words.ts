import { ruleLimits } from '../limits.ts';
import type { RuleError } from './rule.ts';

/** One word of a rule line. */
export interface Word {
  readonly text: string;
  readonly quoted: boolean;
}

const { ruleBytesMax } = ruleLimits;
const plainLine = /^[\x20-\x7e]*$/;
const plainWord = /^[^"'\\]+$/;

/**
 * Splits a line as iptables-restore does, but accepts only forms that all of its versions split in the same way: single spaces between
 * words, words that are quoted as a whole, no quotes or backslashes elsewhere. (After a quote inside a word iptables-restore continues
 * with the next line; after a NUL byte it ignores the rest of the line.)
 */
export function splitWords(line: string): readonly Word[] | RuleError {
  if (line.length > ruleBytesMax) return { error: `the line has more than ${ruleBytesMax} bytes` };
  if (!plainLine.test(line)) return { error: 'the line has a character that is not printable ASCII' };
  const words: Word[] = [];
  for (let at = 0; at <= line.length; ) {
    const quoted = line.charCodeAt(at) === 0x22;
    const end = quoted ? endOfQuote(line, at) : endOfWord(line, at);
    const text = line.slice(at, end);
    if (text === '') return { error: 'words are not separated by single spaces' };
    if (end < line.length && line.charCodeAt(end) !== 0x20)
      return { error: `a quoted word ends inside of ${line.slice(at)}` };
    if (quoted ? end <= at + 2 : !plainWord.test(text))
      return { error: `the quotes of ${line.slice(at)} are not valid` };
    words.push({ text: quoted ? unquote(text) : text, quoted });
    at = end + 1;
  }
  return words;
}

const safeWord = /^[A-Za-z0-9_-]+$/;

/** A text as iptables-save writes it (`xtables_save_string`): in quotes unless every character is safe. */
export function quote(text: string): string {
  if (safeWord.test(text)) return text;
  return `"${text.replaceAll(/["'\\]/g, '\\$&')}"`;
}

function unquote(text: string): string {
  const inner = text.slice(1, -1);
  return inner.includes('\\') ? inner.replaceAll(/\\(.)/g, '$1') : inner;
}

function endOfWord(line: string, start: number): number {
  const space = line.indexOf(' ', start);
  return space < 0 ? line.length : space;
}

/** The position after the closing quote, or after the opening one without a closing one. */
function endOfQuote(line: string, start: number): number {
  for (let at = start + 1; at < line.length; at++) {
    const code = line.charCodeAt(at);
    if (code === 0x5c) at++;
    else if (code === 0x22) return at + 1;
  }
  return start + 1;
}

/**
 * The target of `-j` or `-g`, also of a foreign rule that iptables-save prints; undefined when it has none.
 * Quoted text is ignored: comments may contain anything.
 */
export function targetOf(rule: string): string | undefined {
  const bare = rule.includes('"') ? rule.replaceAll(/"(?:[^"\\]|\\.)*"/g, '""') : rule;
  return / -[jg] (\S+)/.exec(bare)?.[1];
}
