import { BAIL, quotedEnd } from './subset-scalars.ts';

const space = 0x20;
const hash = 0x23;
const dash = 0x2d;
const colon = 0x3a;
const newlineCode = 0x0a;

/** Iterates over the lines of a document that have content, not only spaces and a comment. The text has no tabs. */
export class YamlLines {
  readonly text: string;
  /** The offset of the content of the line. */
  start = 0;
  /** The end of the line: the offset of its newline, or the text's length. */
  end = 0;
  /** The column of `start`, from 0; -1 after the last line. */
  indent = 0;
  private lineStart = 0;

  constructor(text: string, contentStart: number) {
    this.text = text;
    this.end = text.lastIndexOf('\n', contentStart - 1);
    this.next();
  }

  get ended(): boolean {
    return this.indent < 0;
  }

  /** Moves to the next line with content. */
  next(): void {
    const { text } = this;
    for (let from = this.end + 1; from < text.length; from = this.end + 1) {
      const newline = text.indexOf('\n', from);
      this.end = newline < 0 ? text.length : newline;
      this.lineStart = from;
      this.start = this.skipSpaces(from);
      if (this.isBlankFrom(this.start)) continue;
      this.indent = this.start - from;
      return;
    }
    this.indent = -1;
  }

  /** Treats `offset` as the start of the line's content: in `- name: x` a map starts after the dash. */
  moveTo(offset: number): void {
    this.start = offset;
    this.indent = offset - this.lineStart;
  }

  skipSpaces(from: number): number {
    let at = from;
    while (this.text.charCodeAt(at) === space) at++;
    return at;
  }

  /** Whether the rest of the line is empty or a comment. `offset` must follow a space or the line's start, or be its end. */
  isBlankFrom(offset: number): boolean {
    return offset >= this.end || this.text.charCodeAt(offset) === hash;
  }

  /** Whether the content is `-` or `- …`. */
  atDash(): boolean {
    const { text, start, end } = this;
    return text.charCodeAt(start) === dash && (start + 1 === end || text.charCodeAt(start + 1) === space);
  }

  /** The offset of the colon that ends the key at the line's start; -1 if there is no simple key. */
  keyEnd(): number {
    const { text, start, end } = this;
    const first = text.charCodeAt(start);
    let at = start;
    if (first === 0x22 || first === 0x27) {
      at = quotedEnd(text, start);
      return at < end && text.charCodeAt(at) === colon && this.endsWord(at + 1) ? at : -1;
    }
    for (; at < end; at++) {
      const code = text.charCodeAt(at);
      if (code === space) return -1;
      if (code === colon && this.endsWord(at + 1)) return at;
    }
    return -1;
  }

  private endsWord(at: number): boolean {
    return at === this.end || this.text.charCodeAt(at) === space;
  }

  /** Continues on the line of `offset`, where the scalar of this line ends. */
  extendTo(offset: number): void {
    const newline = this.text.indexOf('\n', offset);
    this.end = newline < 0 ? this.text.length : newline;
  }

  /** The line from `start` without a comment and the spaces before it. */
  untilComment(start: number): string {
    const raw = this.text.slice(start, this.end);
    const comment = raw.indexOf(' #');
    return trimEnd(comment < 0 ? raw : raw.slice(0, comment));
  }

  /**
   * The plain scalar from `start`, in a parent at column `indent`, with its continuation lines joined by spaces as YAML folds them (1.2.2,
   * 7.3.3). A comment ends it, and the caller fails at a blank line.
   */
  folded(start: number, indent: number): string {
    const first = this.untilComment(start);
    if (this.text.slice(start, this.end).includes(' #')) return first;
    const pieces = [first];
    for (let from = this.end + 1; from < this.text.length; from = this.end + 1) {
      const at = this.skipSpaces(from);
      const code = this.text.charCodeAt(at);
      if (at - from <= indent || code === newlineCode || code === hash || at >= this.text.length) break;
      this.extendTo(at);
      const piece = this.text.slice(at, this.end);
      if (piece.includes(' #')) throw BAIL;
      pieces.push(trimEnd(piece));
    }
    return pieces.length === 1 ? first : pieces.join(' ');
  }

  /**
   * A literal block with the header `|` or `|-` at `start`, in a parent at column `indent`; undefined without such a header. Moves to the
   * line after it. A first line without content and blank lines with spaces are BAIL: their indentation needs more rules (YAML 1.2.2,
   * 8.1.1.1).
   */
  literal(start: number, indent: number): string | undefined {
    const { text } = this;
    const header = text.slice(start, this.end);
    if (header !== '|' && header !== '|-') return undefined;
    const first = this.end + 1;
    const content = this.skipSpaces(first);
    const column = content - first;
    if (column <= indent || content >= text.length || text.charAt(content) === '\n') throw BAIL;
    const lines: string[] = [];
    while (this.end + 1 < text.length) {
      const from = this.end + 1;
      const newline = text.indexOf('\n', from);
      const end = newline < 0 ? text.length : newline;
      const at = this.skipSpaces(from);
      if (at === end && at > from) throw BAIL;
      if (at < end && at - from < column) break;
      lines.push(text.slice(from + column, end));
      this.end = end;
    }
    while (lines.at(-1) === '') lines.pop();
    this.next();
    return lines.join('\n') + (header === '|' ? '\n' : '');
  }
}

/** Removes spaces at the end; other blanks are text. */
function trimEnd(text: string): string {
  let length = text.length;
  while (length > 0 && text.charCodeAt(length - 1) === space) length--;
  return length === text.length ? text : text.slice(0, length);
}
