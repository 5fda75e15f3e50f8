/** One YAML document or JSON value of a file, before parsing. Line ends are `\n`, without a byte order mark. */
export interface SourceDocument {
  readonly file: string;
  /** The start of `text` in the file, from 1. */
  readonly line: number;
  readonly column: number;
  /** From the document's `---` or directives, if it has them, to the next document. */
  readonly text: string;
}

/** The marker of a document, then blank lines and comments, up to the content. Sticky, so set `lastIndex`. */
const prelude = /(?:---(?=[ \t\n]|$))?(?:[ \t]*(?:#[^\n]*)?\n)*[ \t]*(?:#[^\n]*$)?/y;

/** The offset of the first character that is neither marker, blank nor comment; `text.length` if there is none. */
export function contentStart(text: string): number {
  prelude.lastIndex = 0;
  prelude.test(text);
  return prelude.lastIndex;
}

/**
 * Splits a file at `---` and `...`. Exact without parsing: at the start of a line both are always markers, also in block and quoted scalars (YAML 1.2.2, 9.1.2 and rule [206] c-forbidden). Documents without content are left out.
 *
 * CRLF becomes LF first: every YAML line break is read as LF (5.4), and JSON has line breaks only between tokens.
 */
export function splitDocuments(file: string, content: string): SourceDocument[] {
  const text = content.includes('\r\n') ? content.replaceAll('\r\n', '\n') : content;
  const documents: SourceDocument[] = [];
  let line = 1;
  let counted = 0;
  for (const { from, to } of regions(text)) {
    line += newlines(text, counted, from);
    counted = from;
    const start = text.charCodeAt(from) === byteOrderMark ? from + 1 : from;
    const part = text.slice(start, to);
    if (contentStart(part) < part.length) documents.push({ file, line, column: 1, text: part });
  }
  return documents;
}

const byteOrderMark = 0xfeff;

interface Region {
  readonly from: number;
  readonly to: number;
}

/** The parts between markers. A `---` starts a part, except after directives, which belong to the same part. */
function* regions(text: string): Generator<Region> {
  let from = 0;
  for (const marker of markers(text)) {
    if (text.charCodeAt(marker.at) === dot) {
      yield { from, to: marker.bare ? marker.at : marker.end };
      from = marker.end;
    } else if (marker.at > from && !onlyDirectives(text.slice(from, marker.at))) {
      yield { from, to: marker.at };
      from = marker.at;
    }
  }
  yield { from, to: text.length };
}

const dot = 0x2e;

interface Marker {
  readonly at: number;
  /** The start of the next line. */
  readonly end: number;
  /** Only a comment follows on the same line. */
  readonly bare: boolean;
}

/** Lines that begin with `---` or `...` and a space or the line's end. */
function* markers(text: string): Generator<Marker> {
  for (let at = 0; at >= 0; at = nextCandidate(text, at)) {
    const start = text.charCodeAt(at) === byteOrderMark ? at + 1 : at;
    const mark = text.slice(start, start + 3);
    const after = text.charAt(start + 3);
    if ((mark !== '---' && mark !== '...') || (after !== '' && !' \t\n'.includes(after))) continue;
    const newline = text.indexOf('\n', start);
    const end = newline < 0 ? text.length : newline + 1;
    yield { at: mark === '...' ? start : at, end, bare: /^[ \t]*(?:[ \t]#.*)?\n?$/.test(text.slice(start + 3, end)) };
  }
}

/** The start of the next line whose first character may start a marker; -1 at the end. */
function nextCandidate(text: string, after: number): number {
  for (let newline = text.indexOf('\n', after); newline >= 0; newline = text.indexOf('\n', newline + 1)) {
    const first = text.charCodeAt(newline + 1);
    if (first === 0x2d || first === dot || first === byteOrderMark) return newline + 1;
  }
  return -1;
}

function onlyDirectives(text: string): boolean {
  return /^\ufeff?(?:(?:%[^\n]*|[ \t]*(?:#[^\n]*)?)\n)*$/.test(text) && /^\ufeff?%/m.test(text);
}

function newlines(text: string, from: number, to: number): number {
  let count = 0;
  for (let at = text.indexOf('\n', from); at >= 0 && at < to; at = text.indexOf('\n', at + 1)) count++;
  return count;
}
