import { byId } from '../element.ts';

/** A point of the window of a drawing, in pixels. */
export interface Point {
  readonly x: number;
  readonly y: number;
}

/** What gestures do to a drawing. */
export interface Moves {
  /** Moves by pixels. @returns whether the drawing moved */
  readonly pan: (dx: number, dy: number) => boolean;
  /** @param at the point that stays where it is; the middle of the window if there is none */
  readonly zoom: (factor: number, at?: Point) => void;
  readonly fit: () => void;
  /** Opens the Service at a point, or without one the Service in the middle of the window. */
  readonly open: (at?: Point) => void;
}

const keyStep = 60;
const zoomStep = 1.25;

/** Mouse, touch with one finger or two, wheel, keys and buttons. */
export function listenToGestures(box: HTMLElement, moves: Moves): void {
  listenToKeys(box, moves);
  listenToWheel(box, moves);
  listenToPointers(box, moves);
  byId('zoom-in').addEventListener('click', () => moves.zoom(zoomStep));
  byId('zoom-out').addEventListener('click', () => moves.zoom(1 / zoomStep));
  byId('zoom-fit').addEventListener('click', moves.fit);
}

function listenToKeys(box: HTMLElement, { pan, zoom, fit, open }: Moves): void {
  const keys: Readonly<Record<string, () => unknown>> = {
    ArrowUp: () => pan(0, -keyStep),
    ArrowDown: () => pan(0, keyStep),
    ArrowLeft: () => pan(-keyStep, 0),
    ArrowRight: () => pan(keyStep, 0),
    PageUp: () => pan(0, -box.clientHeight),
    PageDown: () => pan(0, box.clientHeight),
    Home: () => pan(0, Number.MIN_SAFE_INTEGER),
    End: () => pan(0, Number.MAX_SAFE_INTEGER),
    '+': () => zoom(zoomStep),
    '=': () => zoom(zoomStep),
    '-': () => zoom(1 / zoomStep),
    '0': fit,
    Enter: () => open(),
  };
  box.addEventListener('keydown', (event) => {
    const act = event.ctrlKey || event.metaKey || event.altKey ? undefined : keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
}

/** A wheel without Ctrl moves the drawing, as it moves a page; at an end of the drawing the page moves on. */
function listenToWheel(box: HTMLElement, { pan, zoom }: Moves): void {
  box.addEventListener(
    'wheel',
    (event) => {
      const isZoom = event.ctrlKey || event.metaKey;
      if (isZoom) zoom(Math.exp(-event.deltaY / 300), placeIn(box, event));
      if (isZoom || pan(event.deltaX, event.deltaY)) event.preventDefault();
    },
    { passive: false },
  );
}

/** A pointer that moved less was a click. */
const clickMax = 4;

function listenToPointers(box: HTMLElement, { pan, zoom, open }: Moves): void {
  const down = new Map<number, Point>();
  let moved = 0;
  box.addEventListener('pointerdown', (event) => {
    if (down.size === 0) moved = 0;
    // The second finger of a pinch is no click.
    else moved = clickMax;
    box.setPointerCapture(event.pointerId);
    down.set(event.pointerId, placeIn(box, event));
  });
  box.addEventListener('pointermove', (event) => {
    const from = down.get(event.pointerId);
    if (!from) return;
    const to = placeIn(box, event);
    down.set(event.pointerId, to);
    moved += Math.abs(to.x - from.x) + Math.abs(to.y - from.y);
    const [other] = [...down].flatMap(([id, at]) => (id === event.pointerId ? [] : [at]));
    const [dx, dy] = other ? [(from.x - to.x) / 2, (from.y - to.y) / 2] : [from.x - to.x, from.y - to.y];
    const isMoved = pan(dx, dy);
    if (other) zoom(...pinchOf(other, from, to));
    // The window takes all touches: at an end of the drawing a finger moves the page.
    else if (!isMoved && event.pointerType === 'touch') scrollBy(0, dy);
  });
  for (const end of ['pointerup', 'pointercancel'] as const)
    box.addEventListener(end, (event) => {
      if (!down.delete(event.pointerId)) return;
      if (end === 'pointerup' && moved < clickMax) open(placeIn(box, event));
    });
}

/** How much two fingers zoom, and around which point, when one of them moves. */
export function pinchOf(other: Point, from: Point, to: Point): readonly [factor: number, at: Point] {
  const distance = (a: Point, b: Point): number => Math.max(1, Math.hypot(a.x - b.x, a.y - b.y));
  return [distance(other, to) / distance(other, from), { x: (other.x + to.x) / 2, y: (other.y + to.y) / 2 }];
}

function placeIn(box: HTMLElement, event: MouseEvent): Point {
  const { left, top } = box.getBoundingClientRect();
  return { x: event.clientX - left, y: event.clientY - top };
}
