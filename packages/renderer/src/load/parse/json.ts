import type { Path } from '../../render/model/kube.ts';
import type { Marks } from './marks.ts';

/**
 * Splits consecutive JSON values, which kubectl accepts in one file. It parses only strings and brackets, so the parts still have to pass
 * `parseJson`.
 */
export function splitJson(text: string, from: number): { from: number; to: number }[] {
  const parts: { from: number; to: number }[] = [];
  const structure = /["{}[\]]/g;
  let depth = 0;
  let start = from;
  structure.lastIndex = from;
  for (let match = structure.exec(text); match !== null; match = structure.exec(text)) {
    if (match[0] === '"') {
      structure.lastIndex = stringEnd(text, match.index);
    } else if (match[0] === '{' || match[0] === '[') {
      if (depth++ === 0) start = match.index;
    } else if (--depth === 0) {
      parts.push({ from: start, to: match.index + 1 });
    }
  }
  return parts;
}

/** Counts the keys of a valid JSON text, including duplicates, which `JSON.parse` silently drops. */
export function countJsonKeys(text: string): number {
  let keys = 0;
  for (let quote = text.indexOf('"'); quote >= 0; ) {
    const after = stringEnd(text, quote);
    if (text.charAt(skipBlanks(text, after)) === ':') keys++;
    quote = text.indexOf('"', after);
  }
  return keys;
}

/** Called for each duplicate key. */
type OnDuplicate = (key: string, offset: number, path: Path) => void;

/**
 * Records the offset of each value of a valid JSON text, whose nesting must be within the limits.
 *
 * @param from the offset of the value's first character, or of blanks before it.
 */
export function markJson(text: string, from: number, marks: Marks, onDuplicate: OnDuplicate = () => {}): void {
  new JsonMarker(text, marks, onDuplicate).value('', skipBlanks(text, from));
}

class JsonMarker {
  private readonly path: (string | number)[] = [];
  private readonly text: string;
  private readonly marks: Marks;
  private readonly onDuplicate: OnDuplicate;

  constructor(text: string, marks: Marks, onDuplicate: OnDuplicate) {
    this.text = text;
    this.marks = marks;
    this.onDuplicate = onDuplicate;
  }

  /** Records the value at `at`; returns the offset after it and the following blanks. */
  value(key: string | number, at: number): number {
    const { text, marks } = this;
    const mark = marks.enter(key, at);
    const first = text.charAt(at);
    let end: number;
    if (first === '{') end = this.object(at);
    else if (first === '[') end = this.array(at);
    else if (first === '"') end = stringEnd(text, at);
    else end = wordEnd(text, at);
    marks.leave(mark);
    return skipBlanks(text, end);
  }

  private object(open: number): number {
    const { text, path } = this;
    const seen = new Set<string>();
    let at = skipBlanks(text, open + 1);
    while (text.charAt(at) !== '}') {
      const keyEnd = stringEnd(text, at);
      const key = JSON.parse(text.slice(at, keyEnd)) as string;
      path.push(key);
      if (seen.has(key)) this.onDuplicate(key, at, [...path]);
      seen.add(key);
      at = this.value(key, skipBlanks(text, skipBlanks(text, keyEnd) + 1));
      path.pop();
      if (text.charAt(at) === ',') at = skipBlanks(text, at + 1);
    }
    return at + 1;
  }

  private array(open: number): number {
    const { text, path } = this;
    let at = skipBlanks(text, open + 1);
    for (let index = 0; text.charAt(at) !== ']'; index++) {
      path.push(index);
      at = this.value(index, at);
      path.pop();
      if (text.charAt(at) === ',') at = skipBlanks(text, at + 1);
    }
    return at + 1;
  }
}

/** The offset after the string that starts at `quote`; the text's length if it is unterminated. */
function stringEnd(text: string, quote: number): number {
  for (let close = text.indexOf('"', quote + 1); close >= 0; close = text.indexOf('"', close + 1)) {
    let backslashes = 0;
    while (text.charCodeAt(close - 1 - backslashes) === 0x5c) backslashes++;
    if (backslashes % 2 === 0) return close + 1;
  }
  return text.length;
}

function wordEnd(text: string, from: number): number {
  let at = from;
  while (at < text.length && !' \t\r\n,]}'.includes(text.charAt(at))) at++;
  return at;
}

function skipBlanks(text: string, from: number): number {
  let at = from;
  for (let code = text.charCodeAt(at); code === 0x20 || (code >= 0x09 && code <= 0x0d); code = text.charCodeAt(at))
    at++;
  return at;
}
