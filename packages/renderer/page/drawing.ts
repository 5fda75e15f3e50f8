import type { PageData, PageEndpoint, PageNode, PageService } from '../src/emit/report/data.ts';
import { shape } from './element.ts';

/** The maximum of a drawing; it counts the rest. */
const most = { services: 12, endpoints: 60 } as const;

/** Columns and rows in units of the drawing. */
const size = { width: 980, service: 230, endpoint: 210, node: 190, row: 26, gap: 14, top: 34 } as const;
const x = { service: 10, endpoint: 370, node: 760 } as const;

interface DrawnService {
  readonly service: PageService;
  readonly endpoints: readonly PageEndpoint[];
}

/**
 * Services on the left, their endpoints in the middle, nodes by zones on the right. Added lines are thick and removed ones dashed, so that
 * the drawing does not depend on colours.
 */
export function drawing(data: PageData, services: readonly PageService[]): Node {
  const drawn = pick(services);
  const nodes = nodesOf(data, drawn);
  const places = placeNodes(nodes.map((index) => data.nodes[index]!));
  const rows = drawn.reduce((sum, { endpoints }) => sum + Math.max(1, endpoints.length) * size.row + size.gap, 0);
  const height = size.top + Math.max(rows, places.height) + 10;
  const svg = shape('svg', {
    viewBox: `0 0 ${size.width} ${height}`,
    role: 'img',
    'aria-label': labelOf(drawn, nodes.length),
    class: 'drawing',
  });
  svg.append(heading(x.service, 'Services'), heading(x.endpoint, 'endpoints'), heading(x.node, 'nodes by zone'));
  const at = new Map(nodes.map((index, order) => [index, places.tops[order]!]));
  let top: number = size.top;
  for (const { service, endpoints } of drawn) {
    const middle = top + (Math.max(1, endpoints.length) * size.row) / 2;
    svg.append(box(x.service, middle - size.row / 2, size.service, service.name, service.fate));
    for (const [order, endpoint] of endpoints.entries()) {
      svg.append(...endpointShapes(endpoint, middle, top + order * size.row, at, service.fate));
    }
    top += Math.max(1, endpoints.length) * size.row + size.gap;
  }
  svg.append(...places.zones.map(zoneShape), ...nodes.map((index) => nodeShape(data.nodes[index]!, at.get(index)!)));
  const left = services.length - drawn.length;
  const hidden = services.reduce((sum, { endpoints }) => sum + endpoints.length, 0) - count(drawn);
  if (left + hidden > 0)
    svg.append(heading(x.endpoint, `… and ${left} Services, ${hidden} endpoints more`, height - 6));
  return svg;
}

/** Picks Services, and of each the changed endpoints first, as many as are legible. */
function pick(services: readonly PageService[]): readonly DrawnService[] {
  const chosen = services.slice(0, most.services);
  const share = Math.max(4, Math.floor(most.endpoints / Math.max(1, chosen.length)));
  return chosen.map((service) => {
    const changed = service.endpoints.filter(({ fate }) => fate !== 'same');
    const same = service.endpoints.filter(({ fate }) => fate === 'same');
    return { service, endpoints: [...changed, ...same].slice(0, share) };
  });
}

const count = (drawn: readonly DrawnService[]): number =>
  drawn.reduce((sum, { endpoints }) => sum + endpoints.length, 0);

function nodesOf({ nodes }: PageData, drawn: readonly DrawnService[]): readonly number[] {
  const used = new Set(drawn.flatMap(({ endpoints }) => endpoints.flatMap(({ at }) => (at === undefined ? [] : [at]))));
  return nodes.flatMap((_, index) => (used.has(index) ? [index] : []));
}

interface Zone {
  readonly name: string;
  readonly top: number;
  readonly height: number;
}

function placeNodes(nodes: readonly PageNode[]): { tops: readonly number[]; zones: readonly Zone[]; height: number } {
  const zones: Zone[] = [];
  const tops: number[] = [];
  let top: number = size.top;
  for (const [name, list] of Map.groupBy(nodes, ({ zone }) => zone)) {
    zones.push({ name, top, height: list.length * size.row + 26 });
    for (const [order] of list.entries()) tops.push(top + 22 + order * size.row);
    top += list.length * size.row + 26 + size.gap;
  }
  return { tops, zones, height: top - size.top };
}

function endpointShapes(
  { text, at, fate }: PageEndpoint,
  middle: number,
  top: number,
  nodes: ReadonlyMap<number, number>,
  service: PageService['fate'],
): readonly Node[] {
  const own = service === 'added' || service === 'removed' ? service : fate;
  const node = at === undefined ? undefined : nodes.get(at);
  const center = top + size.row / 2;
  return [
    line(x.service + size.service, middle, x.endpoint, center, own),
    ...(node === undefined ? [] : [line(x.endpoint + size.endpoint, center, x.node, node + 11, own)]),
    box(x.endpoint, top, size.endpoint, text, own),
  ];
}

function line(x1: number, y1: number, x2: number, y2: number, fate: string): Node {
  const bend = (x1 + x2) / 2;
  return shape('path', { d: `M${x1} ${y1}C${bend} ${y1} ${bend} ${y2} ${x2} ${y2}`, class: `edge ${fate}` });
}

function box(left: number, top: number, width: number, text: string, fate: string): Node {
  const short = text.length > width / 7.6 ? `${text.slice(0, Math.floor(width / 7.6) - 1)}…` : text;
  return shape(
    'g',
    { class: `box ${fate}` },
    shape('title', {}, `${text} (${fate})`),
    shape('rect', { x: left, y: top + 2, width, height: size.row - 5, rx: 5 }),
    shape('text', { x: left + 9, y: top + size.row / 2 + 4 }, short),
  );
}

function zoneShape({ name, top, height }: Zone): Node {
  return shape(
    'g',
    { class: 'zone' },
    shape('rect', { x: x.node - 10, y: top, width: size.node + 20, height, rx: 8 }),
    shape('text', { x: x.node, y: top + 15 }, name === '' ? 'no zone' : `zone ${name}`),
  );
}

function nodeShape({ name, fate }: PageNode, top: number): Node {
  return box(x.node, top - 2, size.node, name, fate);
}

function heading(left: number, text: string, top = 18): Node {
  return shape('text', { x: left, y: top, class: 'heading' }, text);
}

function labelOf(drawn: readonly DrawnService[], nodes: number): string {
  const names = drawn.map(({ service }) => `${service.name} (${service.fate})`).join(', ');
  return `Drawing of ${names || 'no Service'}, with ${count(drawn)} endpoints on ${nodes} nodes. The lists below show the same.`;
}
