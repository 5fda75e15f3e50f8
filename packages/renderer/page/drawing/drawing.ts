import type { PageData, PageNode, PageService } from '../../src/emit/report/data.ts';
import { byId, shape } from '../element.ts';
import { isPrinting, onPrint } from '../printing.ts';
import { hashOf, type View } from '../router.ts';
import { blockShapes, plainShapes } from './block.ts';
import { type Block, blocksIn, columns, drawingWidth, layoutBlock, stack } from './layout.ts';
import { fit, pan, type Size, start, type Viewport, zoom } from './viewport.ts';

/** One Service, as large as it is. */
export function drawingOf(service: PageService, nodes: readonly PageNode[]): Node {
  const block = layoutBlock(service, nodes);
  return shape(
    'svg',
    {
      class: 'drawing',
      viewBox: `-4 -4 ${drawingWidth + 8} ${block.height + 8}`,
      role: 'img',
      'aria-label': `${service.frontends.length} frontends, ${service.endpoints.length} endpoints of ${service.name}; the table has the same`,
    },
    ...blockShapes(block, service.name),
  );
}

/** A drawing this small has no texts. */
const scalePlain = 0.28;
const keyStep = 60;
/** Services of a drawing on paper. */
const printedMax = 40;

/** All Services that change, worst first. Only those in sight are in the document. */
export function showDrawing({ services, nodes }: PageData): View {
  const box = byId('canvas');
  const blocks = services.map((service) => layoutBlock(service, nodes));
  const heights = blocks.map(({ height }) => height);
  const { tops, height } = stack(heights);
  const content: Size = { width: drawingWidth, height };
  const svg = shape('svg', { class: 'drawing', role: 'img', 'aria-label': labelOf(services) });
  box.replaceChildren(svg);
  const size = (): Size => ({ width: box.clientWidth || 800, height: box.clientHeight || 600 });
  let view: Viewport = start(size(), content);
  const drawn = new Map<string, Element>();

  const draw = (): void => {
    const { width, height: seen } = size();
    const isPlain = !isPrinting() && view.scale < scalePlain;
    const [first, end] = isPrinting()
      ? [0, Math.min(printedMax, services.length)]
      : blocksIn(tops, heights, view.y, view.y + seen / view.scale);
    const printed = end === 0 ? 0 : tops[end - 1]! + heights[end - 1]!;
    svg.setAttribute(
      'viewBox',
      isPrinting()
        ? `-4 -4 ${drawingWidth + 8} ${printed + 8}`
        : `${view.x} ${view.y} ${width / view.scale} ${seen / view.scale}`,
    );
    const wanted = new Set<string>();
    for (let at = first; at < end; at++) {
      const key = `${at} ${isPlain}`;
      wanted.add(key);
      if (drawn.has(key)) continue;
      const made = groupOf(blocks[at]!, services[at]!, tops[at]!, isPlain);
      drawn.set(key, made);
      svg.append(made);
    }
    for (const [key, group] of drawn) {
      if (wanted.has(key)) continue;
      group.remove();
      drawn.delete(key);
    }
    byId('drawing-count').textContent =
      `${services.length} changed Services, ${first + 1} to ${end} in sight, ${Math.round(view.scale * 100)} %`;
  };
  const to = (next: Viewport): void => {
    view = next;
    draw();
  };
  listen(box, {
    pan: (dx, dy) => {
      const { x, y } = view;
      to(pan(view, dx, dy, size(), content));
      return x !== view.x || y !== view.y;
    },
    zoom: (factor, at) => to(zoom(view, factor, at ?? { x: size().width / 2, y: size().height / 2 }, size(), content)),
    fit: () => to(fit(size(), content)),
    open: (at) => {
      const y = view.y + at.y / view.scale;
      const index = blocksIn(tops, heights, y, y)[0];
      const x = view.x + at.x / view.scale;
      const { x: left, width } = columns.service;
      if (index < tops.length && tops[index]! <= y && x >= left && x <= left + width)
        location.hash = hashOf('services', services[index]!.name);
    },
  });
  new ResizeObserver(() => to(pan(view, 0, 0, size(), content))).observe(box);
  onPrint(draw);
  draw();
  return { show: () => to(pan(view, 0, 0, size(), content)) };
}

function groupOf(block: Block, { name }: PageService, top: number, isPlain: boolean): SVGElement {
  const shapes = isPlain ? plainShapes(block) : blockShapes(block, name);
  return shape('g', { transform: `translate(0 ${top})`, class: isPlain ? 'plain' : undefined }, ...shapes);
}

interface Moves {
  /** @returns whether the drawing moved */
  readonly pan: (dx: number, dy: number) => boolean;
  readonly zoom: (factor: number, at?: { x: number; y: number }) => void;
  readonly fit: () => void;
  readonly open: (at: { x: number; y: number }) => void;
}

/** Mouse, touch, wheel and keys. A wheel without Ctrl moves the drawing, as it moves a page. */
function listen(box: HTMLElement, { pan: move, zoom: scale, fit: whole, open }: Moves): void {
  const keys: Readonly<Record<string, () => unknown>> = {
    ArrowUp: () => move(0, -keyStep),
    ArrowDown: () => move(0, keyStep),
    ArrowLeft: () => move(-keyStep, 0),
    ArrowRight: () => move(keyStep, 0),
    PageUp: () => move(0, -box.clientHeight),
    PageDown: () => move(0, box.clientHeight),
    Home: () => move(0, Number.MIN_SAFE_INTEGER),
    End: () => move(0, Number.MAX_SAFE_INTEGER),
    '+': () => scale(1.25),
    '=': () => scale(1.25),
    '-': () => scale(0.8),
    '0': whole,
  };
  box.addEventListener('keydown', (event) => {
    const act = event.ctrlKey || event.metaKey || event.altKey ? undefined : keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
  const place = (event: MouseEvent): { x: number; y: number } => {
    const { left, top } = box.getBoundingClientRect();
    return { x: event.clientX - left, y: event.clientY - top };
  };
  box.addEventListener(
    'wheel',
    (event) => {
      const isZoom = event.ctrlKey || event.metaKey;
      if (isZoom) scale(Math.exp(-event.deltaY / 300), place(event));
      // At an end of the drawing the page moves on.
      if (isZoom || move(event.deltaX, event.deltaY)) event.preventDefault();
    },
    { passive: false },
  );
  let moved = 0;
  box.addEventListener('pointerdown', (event) => {
    moved = 0;
    box.setPointerCapture(event.pointerId);
  });
  box.addEventListener('pointermove', (event) => {
    if (!box.hasPointerCapture(event.pointerId)) return;
    moved += Math.abs(event.movementX) + Math.abs(event.movementY);
    move(-event.movementX, -event.movementY);
  });
  box.addEventListener('pointerup', (event) => {
    if (moved < 4) open(place(event));
  });
  byId('zoom-in').addEventListener('click', () => scale(1.25));
  byId('zoom-out').addEventListener('click', () => scale(0.8));
  byId('zoom-fit').addEventListener('click', whole);
}

function labelOf(services: readonly PageService[]): string {
  const named = services.slice(0, 5).map(({ name }) => name);
  const more = services.length > named.length ? ` and ${services.length - named.length} more` : '';
  return `Drawing of ${named.join(', ') || 'no Service'}${more}, worst first. The view Services has the same as tables.`;
}
