import type { PageData } from '../src/emit/report/data.ts';
import { byId, element } from './element.ts';
import { percent, severityMark } from './marks.ts';
import { type Cell, type Focus, type Matrix, type MatrixRow, matrixOf } from './matrix.ts';
import { hashOf, type View } from './router.ts';
import type { IndexedService } from './service-index.ts';

/** Rows of a table; a button shows the rest. */
const rowsMax = 200;
/** Steps of the colour of load. */
const heatSteps = 6;

/** The cluster by namespaces and zones. `#cluster/namespace/shop` has the Services of one, `#cluster/zone/a` the nodes of one. */
export function showCluster({ nodes }: PageData, services: readonly IndexedService[]): View {
  const all = services.map((service) => service.read());
  return {
    show(path) {
      const focus = focusOf(path);
      const matrix = matrixOf(all, nodes, focus);
      byId('cluster-path').replaceChildren(...pathOf(focus, matrix));
      draw(matrix, focus, rowsMax);
    },
  };
}

function draw(matrix: Matrix, focus: Focus, most: number): void {
  const rest = matrix.rows.length - most;
  const more = element('button', { type: 'button' }, `Show ${rest} more rows`);
  more.addEventListener('click', () => draw(matrix, focus, matrix.rows.length));
  byId('cluster-table').replaceChildren(tableOf(matrix, focus, most), ...(rest > 0 ? [more] : []));
}

/** Reads `namespace/shop/zone/a`. */
export function focusOf(path: readonly string[]): Focus {
  const valueOf = (key: string): string | undefined => path.find((_, at) => at % 2 === 1 && path[at - 1] === key);
  const [namespace, zone] = [valueOf('namespace'), valueOf('zone')];
  return { ...(namespace === undefined ? {} : { namespace }), ...(zone === undefined ? {} : { zone }) };
}

function hashOfFocus({ namespace, zone }: Focus): string {
  return hashOf(
    'cluster',
    ...(namespace === undefined ? [] : ['namespace', namespace]),
    ...(zone === undefined ? [] : ['zone', zone]),
  );
}

/** Where the reader is, with the ways back. */
function pathOf({ namespace, zone }: Focus, { rows, columns }: Matrix): readonly (Node | string)[] {
  const chip = (text: string, without: Focus): Node =>
    element('a', { class: 'chip', href: hashOfFocus(without), 'aria-label': `Leave ${text}` }, `${text} ×`);
  const what = `${rows.length} ${namespace === undefined ? 'namespaces' : 'Services'} × ${columns.length} ${zone === undefined ? 'zones' : 'nodes'}`;
  return [
    element('b', {}, what),
    ...(namespace === undefined ? [] : [chip(`namespace ${namespace}`, zone === undefined ? {} : { zone })]),
    ...(zone === undefined ? [] : [chip(`zone ${zone}`, namespace === undefined ? {} : { namespace })]),
  ];
}

function tableOf(matrix: Matrix, focus: Focus, most: number): HTMLElement {
  const { columns, rows, loadMax } = matrix;
  const heads = columns.map(({ name }) =>
    element(
      'th',
      { scope: 'col', class: 'number' },
      focus.zone === undefined ? element('a', { href: hashOfFocus({ ...focus, zone: name }) }, name) : name,
    ),
  );
  const foot = columns.map(({ endpoints, share }) =>
    element('td', { class: 'number' }, String(endpoints), element('span', { class: 'quiet' }, ` ${percent(share)}`)),
  );
  return element(
    'table',
    { class: 'matrix' },
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
    element('tbody', {}, ...rows.slice(0, most).map((row) => rowOf(row, focus, loadMax))),
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

function rowOf({ name, services, outside, severity, cells }: MatrixRow, focus: Focus, loadMax: number): HTMLElement {
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
    ...cells.map((cell) => cellOf(cell, loadMax)),
  );
}

function cellOf({ endpoints, come, leave, load }: Cell, loadMax: number): HTMLElement {
  const heat = loadMax === 0 ? 0 : Math.ceil((heatSteps * load) / loadMax);
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
