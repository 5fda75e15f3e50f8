import type { PageEndpoint, PageNode, PageService } from '../../src/emit/report/data.ts';
import type { Severity } from '../../src/report/severity.ts';

// Where the parts of a drawing are, as numbers: frontends → Service → endpoints → nodes by zone, from left to right.

/** The columns, in units of the drawing. */
export const columns = {
  frontend: { x: 0, width: 250 },
  service: { x: 310, width: 210 },
  endpoint: { x: 590, width: 250 },
  node: { x: 920, width: 180 },
} as const;
export const drawingWidth = 1100;

type Fate = PageEndpoint['fate'];

/** One Service, with its top at 0. */
export interface Block {
  readonly height: number;
  readonly boxes: readonly Box[];
  readonly bands: readonly Band[];
}

export interface Box {
  readonly column: keyof typeof columns | 'zone';
  readonly top: number;
  readonly height: number;
  readonly text: string;
  /** On the right, such as `33 → 50 %`. */
  readonly note?: string;
  readonly fate: Fate;
  readonly severity?: Severity;
}

/** A stripe between two columns, as high as its share. */
export interface Band {
  readonly from: 'frontend' | 'service' | 'endpoint';
  /** The upper edges, left and right. */
  readonly tops: readonly [number, number];
  readonly height: number;
  readonly fate: Fate;
}

/** Rows are this high at least, with a gap below each. */
const row = 26;
const gap = 6;
/** The units that a window is high. */
const firstScreen = 400;
/** Endpoints of one drawing; those that stay are the first to be counted only. */
const endpointsMax = 60;

const order = { removed: 0, added: 1, same: 2 } as const satisfies Record<Fate, number>;

/** The layout of a Service. */
export function layoutBlock(service: PageService, nodes: readonly PageNode[]): Block {
  const [drawn, rest] = pick(service);
  const full = fullHeight(service.endpoints.length);
  const endpoints = rowsOf(drawn.map((endpoint) => ({ endpoint, height: bandHeight(endpoint, full) })));
  const places = placeNodes(endpoints, nodes);
  const sum = endpoints.reduce((total, { height }) => total + height, 0);
  const frontends = rowsOf(service.frontends.map((frontend) => ({ frontend, height: 0 })));
  const restHeight = rest === 0 ? 0 : row;
  const inner = Math.max(endOf(endpoints) + restHeight, places.height, endOf(frontends), sum + 12, row + 16);
  const serviceHeight = Math.max(sum + 12, row + 16);
  // In the middle, but in the first screen of a Service that is higher than one.
  const middle = Math.max(Math.min(inner / 2, firstScreen / 2), serviceHeight / 2, endOf(frontends) / 2);
  const serviceTop = middle - serviceHeight / 2;
  const shift = { endpoints: (inner - endOf(endpoints) - restHeight) / 2, frontends: middle - endOf(frontends) / 2 };
  return {
    height: inner,
    boxes: [
      ...frontends.map(
        ({ top, size, frontend }): Box => ({
          column: 'frontend',
          top: shift.frontends + top,
          height: size,
          text: frontend.text,
          note: kindNotes[frontend.kind],
          fate: frontend.fate,
        }),
      ),
      {
        column: 'service',
        top: serviceTop,
        height: serviceHeight,
        text: service.name,
        fate: service.fate === 'changed' ? 'same' : service.fate,
        ...(service.severity === undefined ? {} : { severity: service.severity }),
      },
      ...endpoints.map(
        ({ top, size, endpoint }): Box => ({
          column: 'endpoint',
          top: shift.endpoints + top,
          height: size,
          text: endpoint.text,
          note: shareNote(endpoint),
          fate: endpoint.fate,
        }),
      ),
      ...(rest === 0
        ? []
        : [
            {
              column: 'endpoint' as const,
              top: shift.endpoints + endOf(endpoints) + 2,
              height: row - 4,
              text: `and ${rest} more that stay`,
              fate: 'same' as const,
            },
          ]),
      ...places.boxes,
    ],
    bands: [
      ...frontendBands(frontends, shift.frontends, serviceTop, serviceHeight),
      ...endpointBands(endpoints, shift.endpoints, serviceTop + 6),
      ...places.bands(shift.endpoints),
    ],
  };
}

/** Where blocks that stand below each other begin, and where the last one ends. */
export function stack(
  heights: readonly number[],
  space = 34,
): { readonly tops: readonly number[]; readonly height: number } {
  let height = 0;
  const tops = heights.map((own) => {
    const top = height;
    height += own + space;
    return top;
  });
  return { tops, height: Math.max(0, height - space) };
}

/** The blocks that meet a stretch, as a range of indexes. */
export function blocksIn(
  tops: readonly number[],
  heights: readonly number[],
  from: number,
  to: number,
): readonly [number, number] {
  let [low, high] = [0, tops.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (tops[middle]! + heights[middle]! < from) low = middle + 1;
    else high = middle;
  }
  let end = low;
  while (end < tops.length && tops[end]! <= to) end++;
  return [low, end];
}

/** The endpoints that are drawn, and how many are counted only. */
function pick({ endpoints, cut = 0 }: PageService): readonly [readonly PageEndpoint[], number] {
  const sorted = endpoints.toSorted((a, b) => order[a.fate] - order[b.fate] || (a.at ?? 0) - (b.at ?? 0));
  const drawn = sorted.slice(0, endpointsMax);
  return [drawn, sorted.length - drawn.length + (cut === 'all' ? 0 : cut)];
}

/** The height of all connections of a port: many endpoints need more room. */
const fullHeight = (endpoints: number): number => Math.min(160, Math.max(36, endpoints * 10));

/** An endpoint that leaves is as high as it was. */
const bandHeight = ({ before = 0, after }: PageEndpoint, full: number): number =>
  Math.max(1.5, (after ?? before) * full);

type Row<T> = T & { readonly top: number; readonly size: number };

function rowsOf<T extends { readonly height: number }>(items: readonly T[]): readonly Row<T>[] {
  let next = 0;
  return items.map((item) => {
    const size = Math.max(row, item.height + 4);
    const top = next;
    next += size + gap;
    return { ...item, top, size };
  });
}

function endOf(rows: readonly { readonly top: number; readonly size: number }[]): number {
  const last = rows.at(-1);
  return last === undefined ? 0 : last.top + last.size;
}

type EndpointRow = Row<{ readonly endpoint: PageEndpoint; readonly height: number }>;

function frontendBands(
  frontends: readonly Row<{ readonly frontend: PageService['frontends'][number] }>[],
  shift: number,
  serviceTop: number,
  serviceHeight: number,
): readonly Band[] {
  const part = Math.min(10, (serviceHeight - 12) / Math.max(1, frontends.length));
  const start = serviceTop + (serviceHeight - part * frontends.length) / 2;
  return frontends.map(({ top, size, frontend }, at) => ({
    from: 'frontend',
    tops: [shift + top + (size - part) / 2, start + at * part],
    height: Math.max(1.5, part - 1),
    fate: frontend.fate,
  }));
}

function endpointBands(endpoints: readonly EndpointRow[], shift: number, start: number): readonly Band[] {
  let next = start;
  return endpoints.map(({ top, size, height, endpoint }) => {
    const left = next;
    next += height;
    return { from: 'service', tops: [left, shift + top + (size - height) / 2], height, fate: endpoint.fate };
  });
}

interface Places {
  readonly boxes: readonly Box[];
  readonly height: number;
  readonly bands: (shift: number) => readonly Band[];
}

const zoneHead = 22;

/** Nodes below their zones, each as high as the bands that end there. */
function placeNodes(endpoints: readonly EndpointRow[], nodes: readonly PageNode[]): Places {
  const placed = endpoints.flatMap((own) => (own.endpoint.at === undefined ? [] : [{ own, at: own.endpoint.at }]));
  const byNode = [...Map.groupBy(placed, ({ at }) => at)].toSorted(([a], [b]) => a - b);
  const zones = Map.groupBy(byNode, ([at]) => nodes[at]?.zone ?? '');
  const boxes: Box[] = [];
  const right = new Map<EndpointRow, number>();
  let top = 0;
  for (const [zone, list] of zones) {
    const zoneTop = top;
    top += zoneHead;
    for (const [at, own] of list) {
      const sum = own.reduce((total, one) => total + one.own.height, 0);
      const height = Math.max(row, sum + 4);
      let next = top + (height - sum) / 2;
      for (const one of own) {
        right.set(one.own, next);
        next += one.own.height;
      }
      boxes.push({ column: 'node', top, height, text: nodes[at]?.name ?? '', fate: nodes[at]?.fate ?? 'same' });
      top += height + gap;
    }
    boxes.push({
      column: 'zone',
      top: zoneTop,
      height: top - zoneTop,
      text: zoneText(zone),
      fate: 'same',
    });
    top += gap;
  }
  return {
    boxes: boxes.toSorted((a, b) => Number(b.column === 'zone') - Number(a.column === 'zone')),
    height: Math.max(0, top - gap),
    bands: (shift) =>
      [...right].map(([{ top: left, size, height, endpoint }, to]) => ({
        from: 'endpoint',
        tops: [shift + left + (size - height) / 2, to],
        height,
        fate: endpoint.fate,
      })),
  };
}

/** `zone a`; `zone-1` says so itself. */
const zoneText = (zone: string): string => (zone === '' ? 'no zone' : zone.startsWith('zone') ? zone : `zone ${zone}`);

/** What frontends are called. */
export const kindNotes = {
  cluster: 'ClusterIP',
  external: 'external IP',
  'load-balancer': 'load balancer',
  'node-port': 'node port',
} as const satisfies Record<PageService['frontends'][number]['kind'], string>;

/** `50 %`, or `33 → 50 %` */
export function shareNote({ before, after }: PageEndpoint): string {
  const text = (share: number): string => String(Number((share * 100).toFixed(share < 0.1 ? 1 : 0)));
  if (before === undefined || after === undefined) return `${text(after ?? before ?? 0)} %`;
  return text(before) === text(after) ? `${text(after)} %` : `${text(before)} → ${text(after)} %`;
}
