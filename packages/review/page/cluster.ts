import type { PageData } from '../src/emit/report/data.ts';
import { byId, element } from './element.ts';
import { percent, severityMark } from './marks.ts';
import { type Cell, type Focus, hasZones, type Matrix, type MatrixRow, matrixOf } from './matrix.ts';
import { hashOf, type View } from './router.ts';
import type { IndexedService } from './service-index.ts';

/** Rows and columns of a table; a button shows the rest. */
const shownMax = { rows: 200, columns: 60 } as const;
const all = { rows: Number.POSITIVE_INFINITY, columns: Number.POSITIVE_INFINITY } as const;
type Shown = { readonly [K in keyof typeof shownMax]: number };
/** Tables with more columns have narrow ones, whose names stand upright. */
const wideMax = 14;
/** Steps of the colour of load. */
const heatSteps = 6;

/**
 * The cluster by namespaces and zones. `#cluster/namespace/shop` has the Services of one, `#cluster/zone/a` the nodes of one,
 * `#cluster/by/node` all nodes.
 */
export function showCluster({ nodes }: PageData, services: readonly IndexedService[]): View {
  const read = services.map((service) => service.read());
  const isZoned = nodes.some(({ zone }) => zone !== '');
  return {
    show(path) {
      const asked = focusOf(path);
      const focus = isZoned ? asked : { ...asked, byNode: true };
      const matrix = matrixOf(read, nodes, focus);
      byId('cluster-path').replaceChildren(...pathOf(focus, matrix, isZoned));
      draw(matrix, focus, shownMax);
    },
  };
}

function draw(matrix: Matrix, focus: Focus, most: Shown): void {
  const [rows, columns] = [matrix.rows.length - most.rows, matrix.columns.length - most.columns];
  const parts = [
    ...(rows > 0 ? [`${rows} more rows`] : []),
    ...(columns > 0 ? [`${columns} more ${hasZones(focus) ? 'zones' : 'nodes'}`] : []),
  ];
  const more = element('button', { type: 'button' }, `Show ${parts.join(' and ')}`);
  more.addEventListener('click', () => draw(matrix, focus, all));
  byId('cluster-table').replaceChildren(tableOf(matrix, focus, most), ...(parts.length > 0 ? [more] : []));
}

/** Reads `namespace/shop/zone/a`. */
export function focusOf(path: readonly string[]): Focus {
  const valueOf = (key: string): string | undefined => path.find((_, at) => at % 2 === 1 && path[at - 1] === key);
  const [namespace, zone] = [valueOf('namespace'), valueOf('zone')];
  return {
    ...(namespace === undefined ? {} : { namespace }),
    ...(zone === undefined ? {} : { zone }),
    ...(valueOf('by') === 'node' ? { byNode: true } : {}),
  };
}

function hashOfFocus({ namespace, zone, byNode = false }: Focus): string {
  return hashOf(
    'cluster',
    ...(namespace === undefined ? [] : ['namespace', namespace]),
    ...(zone === undefined ? [] : ['zone', zone]),
    ...(byNode ? ['by', 'node'] : []),
  );
}

/** Where the reader is, with the ways back, and the way between zones and nodes. */
function pathOf(focus: Focus, { rows, columns }: Matrix, isZoned: boolean): readonly (Node | string)[] {
  const { namespace, zone, byNode = false } = focus;
  const chip = (text: string, without: Focus): Node =>
    element('a', { class: 'chip', href: hashOfFocus(without), 'aria-label': `Leave ${text}` }, `${text} ×`);
  const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`;
  const [row, column] = [namespace === undefined ? 'namespace' : 'Service', hasZones(focus) ? 'zone' : 'node'];
  const what = `${counted(rows.length, row)} × ${counted(columns.length, column)}`;
  const { namespace: _namespace, ...withoutNamespace } = focus;
  const { zone: _zone, ...withoutZone } = focus;
  return [
    element('b', {}, what),
    ...(namespace === undefined ? [] : [chip(`namespace ${namespace}`, withoutNamespace)]),
    ...(zone === undefined ? [] : [chip(`zone ${zone}`, withoutZone)]),
    ...(isZoned && zone === undefined
      ? [
          element(
            'a',
            { class: 'chip', href: hashOfFocus({ ...focus, byNode: !byNode }) },
            byNode ? 'by zone' : 'by node',
          ),
        ]
      : []),
  ];
}

function tableOf(matrix: Matrix, focus: Focus, most: Shown): HTMLElement {
  const { rows, loadMax } = matrix;
  const columns = matrix.columns.slice(0, most.columns);
  const isDense = columns.length > wideMax;
  const heads = columns.map(({ name }) =>
    element(
      'th',
      { scope: 'col', class: 'number' },
      hasZones(focus) ? element('a', { href: hashOfFocus({ ...focus, zone: name }) }, name) : element('span', {}, name),
    ),
  );
  const foot = columns.map(({ endpoints, share }) =>
    element('td', { class: 'number' }, String(endpoints), element('span', { class: 'quiet' }, ` ${percent(share)}`)),
  );
  return element(
    'table',
    { class: `matrix${isDense ? ' dense' : ''}` },
    element(
      'thead',
      {},
      element(
        'tr',
        {},
        element('th', { scope: 'col' }, focus.namespace === undefined ? 'namespace' : 'Service'),
        element('th', { scope: 'col', class: 'number' }, 'Services'),
        element(
          'th',
          { scope: 'col', class: 'number', title: 'Node ports, external and load-balancer addresses' },
          'open to outside',
        ),
        ...heads,
      ),
    ),
    element('tbody', {}, ...rows.slice(0, most.rows).map((row) => rowOf(row, focus, loadMax, columns.length))),
    element(
      'tfoot',
      {},
      element(
        'tr',
        {},
        element('th', { scope: 'row' }, 'all, with their part of the load'),
        element('td', {}),
        element('td', {}),
        ...foot,
      ),
    ),
  );
}

function rowOf(
  { name, services, outside, severity, cells }: MatrixRow,
  focus: Focus,
  loadMax: number,
  columns: number,
): HTMLElement {
  const href = focus.namespace === undefined ? hashOfFocus({ ...focus, namespace: name }) : hashOf('services', name);
  return element(
    'tr',
    {},
    element(
      'th',
      { scope: 'row' },
      severity === undefined ? element('span', { class: 'sign' }) : severityMark(severity),
      element('a', { href }, name),
    ),
    element('td', { class: 'number' }, String(services)),
    element('td', { class: 'number' }, outside === 0 ? element('span', { class: 'quiet' }, '0') : String(outside)),
    ...cells.slice(0, columns).map((cell) => cellOf(cell, loadMax)),
  );
}

function cellOf({ endpoints, come, leave, load }: Cell, loadMax: number): HTMLElement {
  // Sums of shares differ in their last bits.
  const heat = loadMax === 0 ? 0 : Math.min(heatSteps, Math.ceil((heatSteps * load) / loadMax));
  const title = `${endpoints} endpoints, load ${Number(load.toFixed(2))}`;
  if (endpoints + come + leave === 0) return element('td', { class: 'number quiet' }, '·');
  return element(
    'td',
    { class: `number heat${heat}`, title },
    String(endpoints),
    ...(come > 0 ? [' ', element('span', { class: 'added' }, `+${come}`)] : []),
    ...(leave > 0 ? [' ', element('span', { class: 'removed' }, `−${leave}`)] : []),
  );
}
