/** Tables of the site: on a telephone a row is a list, and long words of code break. */

/** What markdown-it reads, as far as it is used here. */
interface Token {
  readonly type: string;
  readonly content: string;
  readonly children: readonly { meta: unknown }[] | null;
  attrSet(name: string, value: string): void;
}

/** What a piece of code in a cell is marked with. */
const inCell = { isInCell: true } as const;

/** Writes the name of its column into each cell: on a telephone it stands before the text. A row of a code gets an anchor. */
export function labelCells({ tokens }: { readonly tokens: readonly Token[] }): void {
  const codes = new Set<string>();
  let names: string[] = [];
  let column = 0;
  for (const [at, token] of tokens.entries()) {
    const { content = '', children = [] } = tokens[at + 1] ?? {};
    if (token.type === 'thead_open') names = [];
    if (token.type === 'th_open') names.push(content.replaceAll('`', ''));
    if (token.type === 'tr_open') column = 0;
    if (token.type !== 'td_open') continue;
    const [, code] = /^`([A-Z]+(?:_[A-Z]+)+)`/.exec(content) ?? [];
    if (column === 0 && code !== undefined && !codes.has(code)) {
      codes.add(code);
      tokens[at - 1]?.attrSet('id', code.toLowerCase());
    }
    token.attrSet('data-label', names[column++] ?? '');
    for (const child of children ?? []) child.meta = inCell;
  }
}

/** Code of a cell whose long words may break where their parts end; other code as it is. */
export const breakCode = (html: string, { meta }: { readonly meta: unknown }): string =>
  meta === inCell
    ? html.replace(/(?<=>|\s)[^<>\s]{16,}/g, (word) => word.replace(/[./_:=,)\]}|?+*](?!$)/g, '$&<wbr>'))
    : html;

/** A page for the index of the search: a row that explains a code has a heading. */
export const withCodeHeadings = (html: string): string =>
  html.replaceAll(/<tr id="(\w+)">/g, (row, id: string) => `<h3>${id.toUpperCase()} <a href="#${id}">#</a></h3>${row}`);
