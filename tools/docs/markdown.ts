/** What links and headings a Markdown text has, by the rules of GitHub; the site makes its anchors by `slug`, too. */

export interface Link {
  /** From 1. */
  readonly line: number;
  /** Where `[text](target)` begins and ends in the text. */
  readonly start: number;
  readonly end: number;
  readonly label: string;
  readonly target: string;
}

/** The inline links of a text, without those in code and comments. */
export function linksOf(text: string): readonly Link[] {
  const masked = withoutCode(text);
  return [...masked.matchAll(/\[([^\]]*)\]\(([^()\s]+)\)/g)].map(
    ({ 0: whole, 1: label = '', 2: target = '', index }) => ({
      line: text.slice(0, index).split('\n').length,
      start: index,
      end: index + whole.length,
      label: text.slice(index + 1, index + 1 + label.length),
      target,
    }),
  );
}

/** The anchors of a text's headings, in their order; the second of one name ends in `-1`. */
export function anchorsOf(text: string): readonly string[] {
  const lines = text.split('\n');
  const seen = new Map<string, number>();
  return withoutFences(text)
    .split('\n')
    .flatMap((line, index) => (/^#{1,6} /.test(line) ? [lines[index] ?? ''] : []))
    .map((line) => {
      const name = slug(line.replace(/^#+ /, '').replace(/\[([^\]]*)\]\([^)]*\)/g, '$1'));
      const count = seen.get(name) ?? 0;
      seen.set(name, count + 1);
      return count === 0 ? name : `${name}-${count}`;
    });
}

/** The anchor of a heading: small letters, digits, `-` and `_`. */
export function slug(heading: string): string {
  return heading
    .trim()
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\p{M}_ -]/gu, '')
    .replaceAll(' ', '-');
}

/** A text for a cell of a table: nothing in it is HTML or ends the cell. */
export function cell(text: string): string {
  return prose(text).replaceAll('|', '\\|').replaceAll('\n', ' ');
}

/** A text from the code as Markdown: what looks like HTML or emphasis stays as it is written. */
export function prose(text: string): string {
  return text
    .split(/(`[^`]*`)/)
    .map((part) => (part.startsWith('`') ? part : part.replace(/[<*]/g, '\\$&')))
    .join('');
}

/** The text with blanks in place of code and comments: what is found in it is at the same place in the text. */
function withoutCode(text: string): string {
  return withoutFences(text)
    .replace(/<!--[^]*?-->/g, blank)
    .replace(/(?<!`)(`+)(?!`)(?:(?!\n\n)[^])*?(?<!`)\1(?!`)/g, blank);
}

function withoutFences(text: string): string {
  return text.replace(/^(```+)[^\n]*\n(?:[^]*?\n)?\1 *$/gm, blank);
}

const blank = (part: string): string => part.replace(/[^\n]/g, ' ');
