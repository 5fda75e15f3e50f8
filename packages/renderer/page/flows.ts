import type { PageData, PageFlow } from '../src/emit/report/data.ts';
import { byId, element } from './element.ts';
import { virtualList } from './list.ts';

const turns = { opens: '+', closes: '−', moves: '~' } as const satisfies Record<PageFlow['turn'], string>;
const colours = { opens: 'added', closes: 'removed', moves: 'changed' } as const satisfies Record<
  PageFlow['turn'],
  string
>;

/** The table of flows with search and filters; the details of the chosen flow are below it. */
export function showFlows({ flows }: PageData): void {
  const search = byId('flow-search') as HTMLInputElement;
  const turn = byId('flow-turn') as HTMLSelectElement;
  const source = byId('flow-source') as HTMLSelectElement;
  const texts = flows.map((flow) => Object.values(flow).join(' ').toLowerCase());
  const list = virtualList<PageFlow>({
    box: byId('flow-list'),
    rowHeight: 30,
    row: (flow) => [
      element('span', { class: `sign ${colours[flow.turn]}`, title: flow.turn }, turns[flow.turn]),
      ...[flow.services, flow.to, flow.from, flow.old, flow.new].map((text) =>
        element('span', { class: 'cell', title: text }, text),
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
}

function detailOf(flow: PageFlow): readonly Node[] {
  const pairs = [
    ['Service', flow.services],
    ['to', flow.to],
    ['from', flow.from],
    ['on', flow.on],
    ['before', flow.old],
    ['after', flow.new],
  ] as const;
  return [
    element('dl', {}, ...pairs.flatMap(([name, text]) => [element('dt', {}, name), element('dd', {}, text)])),
    element('p', {}, 'Trace it: ', element('code', {}, flow.packet)),
  ];
}
