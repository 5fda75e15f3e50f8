import type { PageData, PageNode, PageService } from '../../src/emit/report/data.ts';
import { byId, element, shape } from '../element.ts';
import { isPrinting, onPrint } from '../printing.ts';
import { hashOf, type View } from '../router.ts';
import { blockShapes, plainShapes } from './block.ts';
import { listenToGestures } from './gestures.ts';
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
    ...blockShapes(block, service.name, true),
  );
}

/** A drawing this small has no texts. */
const scalePlain = 0.28;
/** Services of a drawing on paper. */
const printedMax = 40;

/** All Services that change, worst first. Only those in sight are in the document. */
export function showDrawing({ services, brief, nodes }: PageData): View {
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
  const more = brief.length === 0 ? '' : `; this page has no room for the endpoints of ${brief.length} more`;

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
    placeHeads(view);
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
      `${services.length} changed Services, ${first + 1} to ${end} in sight, ${Math.round(view.scale * 100)} %${more}`;
  };
  const to = (next: Viewport): void => {
    view = next;
    draw();
  };
  listenToGestures(box, {
    pan: (dx, dy) => {
      const { x, y } = view;
      to(pan(view, dx, dy, size(), content));
      return x !== view.x || y !== view.y;
    },
    zoom: (factor, at) => to(zoom(view, factor, at ?? { x: size().width / 2, y: size().height / 2 }, size(), content)),
    fit: () => to(fit(size(), content)),
    open: (at) => {
      const y = view.y + (at?.y ?? size().height / 2) / view.scale;
      const index = Math.min(blocksIn(tops, heights, y, y)[0], services.length - 1);
      const x = view.x + (at?.x ?? 0) / view.scale;
      const { x: left, width } = columns.service;
      const isHit = tops[index]! <= y && x >= left && x <= left + width;
      if (isHit || at === undefined) location.hash = hashOf('services', services[index]!.name);
    },
  });
  new ResizeObserver(() => to(pan(view, 0, 0, size(), content))).observe(box);
  onPrint(draw);
  draw();
  return { show: () => to(pan(view, 0, 0, size(), content)) };
}

const headings = { frontend: 'frontend', service: 'Service', endpoint: 'endpoint', node: 'node and zone' } as const;

/** Puts the headings above their columns. */
function placeHeads({ x, scale }: Viewport): void {
  const spans = Object.entries(headings).map(([column, text]) => {
    const left = columns[column as keyof typeof headings].x;
    const span = element('span', {}, text);
    span.style.left = isPrinting() ? `${(100 * (left + 4)) / (drawingWidth + 8)}%` : `${(left - x) * scale}px`;
    return span;
  });
  byId('drawing-heads').replaceChildren(...spans);
}

function groupOf(block: Block, { name }: PageService, top: number, isPlain: boolean): SVGElement {
  const shapes = isPlain ? plainShapes(block) : blockShapes(block, name);
  return shape('g', { transform: `translate(0 ${top})`, class: isPlain ? 'plain' : undefined }, ...shapes);
}

function labelOf(services: readonly PageService[]): string {
  const named = services.slice(0, 5).map(({ name }) => name);
  const more = services.length > named.length ? ` and ${services.length - named.length} more` : '';
  return `Drawing of ${named.join(', ') || 'no Service'}${more}, worst first. The view Services has the same as tables.`;
}
