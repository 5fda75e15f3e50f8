import { severityLabels } from '../src/report/severity.ts';
import type { PageData, PageService } from '../src/emit/report/data.ts';
import { drawingOf } from './drawing/drawing.ts';
import { kindNotes } from './drawing/layout.ts';
import { byId, element } from './element.ts';
import { isNarrow, virtualList } from './list.ts';
import { fateSigns, fateWords, severityMark, shareBar } from './marks.ts';
import { hashOf, type View } from './router.ts';
import type { IndexedService } from './service-index.ts';

/** The list of Services with its search, and the one that the address names. */
export function showServices(data: PageData, services: readonly IndexedService[]): View {
  const search = byId('service-search') as HTMLInputElement;
  const kind = byId('service-kind') as HTMLSelectElement;
  const list = virtualList<IndexedService>({
    box: byId('service-list'),
    rowHeight: () => (isNarrow() ? 40 : 32),
    row: (service) => [
      service.isChanged ? markOf(service.read()) : element('span', { class: 'sign' }),
      element('span', { class: 'name', title: service.name }, service.name),
    ],
    choose: ({ name }) => {
      // Not one more step back for each row that keys pass.
      history.replaceState(null, '', hashOf('services', name));
      show(name);
    },
  });
  const show = (name: string): void => {
    const found = services.find((service) => service.name === name);
    byId('service-detail').replaceChildren(
      ...(found ? detailOf(found.read(), data) : [element('p', { class: 'quiet' }, 'Choose a Service.')]),
    );
  };
  const update = (): readonly IndexedService[] => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = services.filter(
      (service) => isWanted(service, kind.value) && words.every((word) => service.text.includes(word)),
    );
    list.show(found);
    byId('service-count').textContent = `${found.length} of ${services.length}`;
    return found;
  };
  search.addEventListener('input', update);
  kind.addEventListener('change', update);
  if (data.services.length === 0) kind.value = 'all';
  let found = update();
  return {
    show([name]) {
      if (name !== undefined && !found.some((one) => one.name === name)) {
        kind.value = 'all';
        search.value = '';
        found = update();
      }
      show(name ?? found[0]?.name ?? '');
      list.mark(found.findIndex((one) => one.name === (name ?? found[0]?.name)));
    },
  };
}

function isWanted(service: IndexedService, kind: string): boolean {
  if (kind === 'all') return true;
  if (!service.isChanged) return false;
  return kind === 'changed' || service.read().effects.some(({ severity }) => severity === kind);
}

function markOf({ severity, fate }: PageService): Node {
  return severity === undefined ? element('span', { class: 'sign' }, fateSigns[fate]) : severityMark(severity);
}

/** What happens to a Service, its endpoints before and after, and its drawing. */
function detailOf(service: PageService, data: PageData): readonly Node[] {
  const { name, severity, effects, frontends, facts, cut } = service;
  const drawn: readonly Node[] =
    cut === 'all'
      ? [
          element(
            'p',
            { class: 'empty' },
            'This page has no room for its endpoints: ',
            code('sluice diff'),
            ' has them.',
          ),
        ]
      : [
          element(
            'div',
            { class: 'card scroll', tabindex: 0, role: 'group', 'aria-label': `Drawing of ${name}` },
            drawingOf(service, data.nodes),
          ),
          endpointTable(service, data),
        ];
  return [
    element(
      'h3',
      { class: 'service-title' },
      ...(severity === undefined ? [] : [severityMark(severity)]),
      name,
      element('span', { class: 'quiet' }, ` ${severity === undefined ? 'does not change' : severityLabels[severity]}`),
    ),
    element(
      'ul',
      { class: 'effects' },
      ...effects.map(({ severity: own, text }) => element('li', {}, severityMark(own), element('span', {}, text))),
    ),
    element(
      'p',
      { class: 'frontends' },
      ...frontends.map(({ kind, text, fate }) =>
        element(
          'span',
          { class: `chip ${fate}` },
          `${fate === 'same' ? '' : `${fateSigns[fate]} `}${kindNotes[kind]} `,
          element('code', {}, text),
        ),
      ),
    ),
    ...drawn,
    ...(facts.length === 0 ? [] : [factList(facts)]),
  ];
}

const code = (text: string): Node => element('code', {}, text);

/** The maximum number of endpoints in the table. */
const endpointsMax = 300;
const order = { removed: 0, added: 1, same: 2 } as const;

/** Endpoints that leave, that come, that stay, with their shares. */
export function endpointTable({ endpoints, cut: left = 0 }: PageService, { nodes }: PageData): HTMLElement {
  const sorted = endpoints.toSorted((a, b) => order[a.fate] - order[b.fate]);
  const rows = sorted.slice(0, endpointsMax).map(({ text, port, at, fate, before, after }) => {
    const node = at === undefined ? undefined : nodes[at];
    const place = node === undefined ? '–' : `${node.name}${node.zone === '' ? '' : `, zone ${node.zone}`}`;
    return element(
      'tr',
      { class: fate },
      element(
        'td',
        { 'data-label': 'endpoint' },
        element('span', { class: `fate ${fate}` }, `${fateSigns[fate]} ${fateWords[fate]}`),
        ' ',
        element('code', {}, text),
      ),
      element('td', { 'data-label': 'port' }, port),
      element('td', { 'data-label': 'node' }, place),
      element('td', { 'data-label': 'before' }, shareBar(before, fate)),
      element('td', { 'data-label': 'after' }, shareBar(after, fate)),
    );
  });
  const heads = ['endpoint', 'port', 'node and zone', 'share before', 'share after'];
  const cut = Math.max(0, endpoints.length - endpointsMax) + (left === 'all' ? 0 : left);
  return element(
    'div',
    {},
    element(
      'table',
      { class: 'stack endpoints' },
      element('thead', {}, element('tr', {}, ...heads.map((head) => element('th', { scope: 'col' }, head)))),
      element('tbody', {}, ...rows),
    ),
    ...(endpoints.length === 0 ? [element('p', { class: 'empty' }, 'No endpoints, before or after.')] : []),
    ...(cut > 0 ? [element('p', { class: 'quiet' }, `${cut} more that stay`)] : []),
  );
}

function factList(facts: readonly string[]): HTMLElement {
  const lines = facts.map((fact) =>
    element('li', { class: { '+': 'added', '-': 'removed' }[fact.slice(0, 1)] ?? '' }, fact),
  );
  return element(
    'details',
    {},
    element('summary', {}, `Declarations that change: ${facts.length}`),
    element('ul', { class: 'facts' }, ...lines),
  );
}
