import { element } from './element.ts';
import { isPrinting, onPrint } from './printing.ts';

/** A list of any length: only the visible rows are in the document. */
export interface VirtualList<T> {
  /** Replaces the items and scrolls to the top. */
  show(items: readonly T[]): void;
  /** Makes a row the active one, as a click does, without choosing it. */
  mark(index: number): void;
}

/** Whether the window is as narrow as a telephone: rows have several lines then. The style sheet has the same width. */
export const isNarrow = (): boolean => matchMedia('(max-width: 820px)').matches;

/** What a page on paper has of a list. */
const printedMax = 300;

export interface VirtualListOptions<T> {
  readonly box: HTMLElement;
  /** In pixels, as in the style sheet; asked for at each drawing, because it depends on the width. */
  readonly rowHeight: () => number;
  /** Builds the content of a row. */
  readonly row: (item: T) => readonly Node[];
  /** Called when a row becomes the active one. */
  readonly choose: (item: T) => void;
}

/** Rows above and below the visible ones, so that scrolling shows no gaps. */
const spareRows = 8;

/** How far a key moves the active row. */
const steps: Readonly<Record<string, (rows: number) => number>> = {
  ArrowDown: () => 1,
  ArrowUp: () => -1,
  PageDown: (rows) => rows,
  PageUp: (rows) => -rows,
  Home: () => Number.NEGATIVE_INFINITY,
  End: () => Number.POSITIVE_INFINITY,
};

/** Calls `by` with the rows that a key moves. @param page the rows in sight */
function listenToKeys(box: HTMLElement, page: () => number, by: (move: number) => void): void {
  box.addEventListener('keydown', (event) => {
    const step = steps[event.key];
    if (!step) return;
    event.preventDefault();
    by(step(Math.max(1, page())));
  });
}

/**
 * Turns an element into a list box: arrow keys, Page Up and Down, Home, End and clicks move the active row. Screen readers announce each
 * row's position in the whole list.
 */
export function virtualList<T>({ box, rowHeight: heightOf, row, choose }: VirtualListOptions<T>): VirtualList<T> {
  let rowHeight = heightOf();
  let items: readonly T[] = [];
  let active = -1;
  const track = element('div', { class: 'track' });
  box.append(track);
  const draw = (): void => {
    rowHeight = heightOf();
    track.style.height = `${items.length * rowHeight}px`;
    const seen = Math.floor(box.scrollTop / rowHeight);
    const [first, last] = isPrinting()
      ? [0, Math.min(items.length, printedMax)]
      : [
          Math.max(0, seen - spareRows),
          Math.min(items.length, seen + Math.ceil(box.clientHeight / rowHeight) + spareRows),
        ];
    const rows = items.slice(first, last).map((item, at) => rowOf(first + at, item));
    track.replaceChildren(...rows);
    const shown = active >= first && active < last;
    if (shown) box.setAttribute('aria-activedescendant', `${box.id}-${active}`);
    else box.removeAttribute('aria-activedescendant');
  };
  const rowOf = (index: number, item: T): HTMLElement => {
    const made = element(
      'div',
      {
        id: `${box.id}-${index}`,
        class: 'row',
        role: 'option',
        'aria-selected': String(index === active),
        'aria-setsize': items.length,
        'aria-posinset': index + 1,
      },
      ...row(item),
    );
    made.style.top = `${index * rowHeight}px`;
    made.addEventListener('click', () => activate(index));
    return made;
  };
  const activate = (index: number): void => {
    const item = items[index];
    if (item === undefined) return;
    mark(index);
    choose(item);
  };
  const mark = (index: number): void => {
    active = index;
    const top = index * rowHeight;
    if (top < box.scrollTop) box.scrollTop = top;
    else if (top + rowHeight > box.scrollTop + box.clientHeight) box.scrollTop = top + rowHeight - box.clientHeight;
    draw();
  };
  onPrint(draw);
  box.addEventListener('scroll', draw, { passive: true });
  new ResizeObserver(draw).observe(box);
  listenToKeys(
    box,
    () => Math.floor(box.clientHeight / rowHeight) - 1,
    (move) => activate(Math.min(items.length - 1, Math.max(0, active + move))),
  );
  return {
    mark,
    show(fresh) {
      items = fresh;
      active = -1;
      box.scrollTop = 0;
      draw();
    },
  };
}
