import type { PageBranch, PageData, PageFlow } from '../src/emit/report/data.ts';
import { byId, element } from './element.ts';
import { isNarrow, virtualList } from './list.ts';
import { fateSigns, fateWords, shareBar } from './marks.ts';
import type { View } from './router.ts';

const turns = { opens: '+', closes: '−', moves: '~' } as const satisfies Record<PageFlow['turn'], string>;
const colours = { opens: 'added', closes: 'removed', moves: 'changed' } as const satisfies Record<
  PageFlow['turn'],
  string
>;

/** The table of flows with search and filters; the details of the chosen flow are below it. */
export function showFlows({ flows }: PageData): View {
  const search = byId('flow-search') as HTMLInputElement;
  const turn = byId('flow-turn') as HTMLSelectElement;
  const source = byId('flow-source') as HTMLSelectElement;
  const texts = flows.map(({ branches, ...flow }) =>
    [...Object.values(flow), ...branches.map(({ to }) => to)].join(' ').toLowerCase(),
  );
  const list = virtualList<PageFlow>({
    box: byId('flow-list'),
    rowHeight: () => (isNarrow() ? 92 : 32),
    row: (flow) => [
      element('span', { class: `sign ${colours[flow.turn]}`, title: flow.turn }, turns[flow.turn]),
      ...(['services', 'to', 'from', 'what'] as const).map((column) =>
        element(
          'span',
          { class: column === 'what' ? 'cell double' : 'cell', title: flow[column], 'data-label': labels[column] },
          flow[column],
        ),
      ),
    ],
    choose: (flow) => byId('flow-detail').replaceChildren(...detailOf(flow)),
  });
  const update = (): void => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = flows.filter(
      (flow, at) =>
        (turn.value === 'all' || flow.turn === turn.value) &&
        (source.value === 'all' || flow.sources.includes(source.value)) &&
        words.every((word) => texts[at]?.includes(word)),
    );
    list.show(found);
    byId('flow-count').textContent = `${found.length} of ${flows.length}`;
  };
  search.addEventListener('input', update);
  turn.addEventListener('change', update);
  source.addEventListener('change', update);
  update();
  return { show: () => undefined };
}

const labels = { services: 'Service', to: 'to', from: 'from', what: 'change' } as const;

function detailOf(flow: PageFlow): readonly Node[] {
  const pairs = [
    ['Service', flow.services],
    ['to', flow.to],
    ['from', flow.from],
    ['on', flow.on],
    ['change', flow.what],
  ] as const;
  return [
    element('dl', {}, ...pairs.flatMap(([name, text]) => [element('dt', {}, name), element('dd', {}, text)])),
    branchTable(flow.branches),
    element(
      'details',
      {},
      element('summary', {}, 'Whole outcomes'),
      element(
        'dl',
        {},
        element('dt', {}, 'before'),
        element('dd', {}, flow.old),
        element('dt', {}, 'after'),
        element('dd', {}, flow.new),
      ),
    ),
    element('p', {}, 'Trace it: ', element('code', {}, flow.packet)),
  ];
}

function branchTable(branches: readonly PageBranch[]): HTMLElement {
  const heads = ['end of connections', 'source address', 'share before', 'share after'];
  return element(
    'table',
    { class: 'stack endpoints' },
    element('thead', {}, element('tr', {}, ...heads.map((head) => element('th', { scope: 'col' }, head)))),
    element(
      'tbody',
      {},
      ...branches.map((branch) => {
        const fate = branch.after === undefined ? 'removed' : branch.before === undefined ? 'added' : 'same';
        return element(
          'tr',
          { class: fate },
          element(
            'td',
            { 'data-label': 'end' },
            element('span', { class: `fate ${fate}` }, `${fateSigns[fate]} ${fateWords[fate]}`),
            ' ',
            element('code', {}, branch.to),
          ),
          element('td', { 'data-label': 'source' }, sourceText(branch)),
          element('td', { 'data-label': 'before' }, shareBar(branch.before, fate)),
          element('td', { 'data-label': 'after' }, shareBar(branch.after, fate)),
        );
      }),
    ),
  );
}

/** Whose address the end sees. */
function sourceText({ before, after, masked: [was, is] }: PageBranch): string {
  const word = (masked: boolean): string => (masked ? "a node's" : "the client's");
  if (before === undefined) return word(is);
  return after === undefined || was === is ? word(was) : `${word(was)} → ${word(is)}`;
}
