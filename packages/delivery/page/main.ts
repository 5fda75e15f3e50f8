/** The row of a node and its text for the search. */
interface FilterEntry {
  readonly row: HTMLElement;
  readonly text: string;
}

/** Tables with more hits stay folded: laying them out at each key stroke is slow. */
const unfoldedMax = 500;

const byId = (id: string): HTMLElement => document.getElementById(id)!;
const search = byId('search') as HTMLInputElement;
const hits = byId('hits');
const sections = [...document.querySelectorAll('section')];
const folds = [...document.querySelectorAll('details')];
let wasOpen: readonly boolean[] | undefined;
let entries: readonly FilterEntry[] | undefined;

byId('filter').hidden = false;
search.addEventListener('input', () => show(search.value.toLowerCase().split(/\s+/).filter(Boolean)));

/** Shows only the nodes whose text has all words, and the sections with such nodes. */
function show(words: readonly string[]): void {
  entries ??= sections.flatMap(entriesOf);
  const found = entries.filter(({ row, text }) => {
    row.hidden = !words.every((word) => text.includes(word));
    return !row.hidden;
  });
  unfold(words.length > 0);
  for (const part of [...sections, ...folds]) part.hidden = part.querySelector('tbody tr:not([hidden])') === null;
  hits.textContent = words.length === 0 ? '' : `${grouped(found.length)} of ${grouped(entries.length)} nodes`;
}

/** A count with thousands separators. */
function grouped(count: number): string {
  return count.toLocaleString('en');
}

/** Opens sections with few hits during a search, and restores all of them afterwards. */
function unfold(isSearching: boolean): void {
  wasOpen ??= folds.map(({ open }) => open);
  for (const [index, fold] of folds.entries()) {
    const hitsHere = isSearching ? fold.querySelectorAll('tbody tr:not([hidden])').length : 0;
    fold.open = wasOpen[index] === true || (hitsHere > 0 && hitsHere <= unfoldedMax);
  }
  if (!isSearching) wasOpen = undefined;
}

function entriesOf(section: HTMLElement): readonly FilterEntry[] {
  const state = section.querySelector('h2')?.textContent ?? '';
  return [...section.querySelectorAll<HTMLElement>('tbody tr')].map((row) => ({
    row,
    text: `${[...row.children].map((cell) => cell.textContent).join(' ')} ${state}`.toLowerCase(),
  }));
}
