import { element } from './element.ts';

/** A list of any length: only the visible rows are in the document. */
export interface VirtualList<T> {
  /** Replaces the items and scrolls to the top. */
  show(items: readonly T[]): void;
}

export interface VirtualListOptions<T> {
  readonly box: HTMLElement;
  /** In pixels, as in the style sheet. */
  readonly rowHeight: number;
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

/**
 * Turns an element into a list box: arrow keys, Page Up and Down, Home, End and clicks move the active row. Screen readers announce each
 * row's position in the whole list.
 */
export function virtualList<T>({ box, rowHeight, row, choose }: VirtualListOptions<T>): VirtualList<T> {
  let items: readonly T[] = [];
  let active = -1;
  const track = element('div', { class: 'track' });
  box.append(track);
  const draw = (): void => {
    const first = Math.max(0, Math.floor(box.scrollTop / rowHeight) - spareRows);
    const last = Math.min(items.length, Math.ceil((box.scrollTop + box.clientHeight) / rowHeight) + spareRows);
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
    active = index;
    const top = index * rowHeight;
    if (top < box.scrollTop) box.scrollTop = top;
    else if (top + rowHeight > box.scrollTop + box.clientHeight) box.scrollTop = top + rowHeight - box.clientHeight;
    draw();
    choose(item);
  };
  box.addEventListener('scroll', draw, { passive: true });
  new ResizeObserver(draw).observe(box);
  box.addEventListener('keydown', (event) => {
    const step = steps[event.key];
    if (!step || items.length === 0) return;
    event.preventDefault();
    const rows = Math.max(1, Math.floor(box.clientHeight / rowHeight) - 1);
    activate(Math.min(items.length - 1, Math.max(0, active + step(rows))));
  });
  return {
    show(fresh) {
      items = fresh;
      active = -1;
      track.style.height = `${items.length * rowHeight}px`;
      box.scrollTop = 0;
      draw();
    },
  };
}
