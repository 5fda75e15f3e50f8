import type { PageData, PageService } from '../src/emit/report/data.ts';
import { drawing } from './drawing.ts';
import { byId, element } from './element.ts';
import { virtualList } from './list.ts';

/** Signs beside the colours, for colour-blind readers. */
const signs = { same: ' ', added: '+', removed: '−', changed: '~' } as const satisfies Record<
  PageService['fate'],
  string
>;

/** The list of Services with its search, and the drawing of the chosen Service or of all changed ones. */
export function showServices(data: PageData): void {
  const search = byId('service-search') as HTMLInputElement;
  const fate = byId('service-fate') as HTMLSelectElement;
  const texts = data.services.map(({ name, addresses, endpoints }) =>
    [name, ...addresses, ...endpoints.map(({ text }) => text)].join(' ').toLowerCase(),
  );
  const list = virtualList<PageService>({
    box: byId('service-list'),
    rowHeight: 30,
    row: ({ name, fate: own, endpoints }) => [
      element('span', { class: `sign ${own}`, title: own }, signs[own]),
      element('span', { class: 'name', title: name }, name),
      element('span', { class: 'count' }, String(endpoints.length)),
    ],
    choose: (service) => show([service]),
  });
  const show = (services: readonly PageService[]): void => {
    byId('drawing').replaceChildren(drawing(data, services));
    byId('drawing-title').textContent = titleOf(services, data);
    byId('facts').replaceChildren(...factsOf(services));
  };
  const update = (): void => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = data.services.filter(
      (service, at) => isWanted(service, fate.value) && words.every((word) => texts[at]?.includes(word)),
    );
    list.show(found);
    byId('service-count').textContent = `${found.length} of ${data.services.length}`;
  };
  search.addEventListener('input', update);
  fate.addEventListener('change', update);
  byId('drawing-all').addEventListener('click', () => show(changedOf(data)));
  if (changedOf(data).length === 0) fate.value = 'all';
  update();
  show(changedOf(data));
}

const changedOf = ({ services }: PageData): readonly PageService[] => services.filter(({ fate }) => fate !== 'same');

function isWanted({ fate }: PageService, wanted: string): boolean {
  return wanted === 'all' || (wanted === 'touched' ? fate !== 'same' : fate === wanted);
}

function titleOf(services: readonly PageService[], data: PageData): string {
  const [only] = services;
  if (services.length === 1 && only && changedOf(data).length !== 1) return only.name;
  return services.length === 0
    ? 'No Service changes'
    : services.length === 1
      ? '1 changed Service'
      : `${services.length} changed Services`;
}

/** The maximum number of lists, and of lists that are initially open. */
const listsMax = 40;
const openMax = 4;

/** The changes of Services, a list for each. */
function factsOf(services: readonly PageService[]): readonly Node[] {
  const left = services.length - listsMax;
  const lists = services.slice(0, listsMax).map(({ name, fate, facts, addresses }) => {
    const lines = facts.length === 0 ? [`${addresses.join(', ')}: nothing changes`] : facts;
    return element(
      'details',
      { open: services.length <= openMax },
      element('summary', {}, `${signs[fate]} ${name}`),
      element('ul', {}, ...lines.map((line) => element('li', { class: lineClass(line) }, line))),
    );
  });
  return left > 0 ? [...lists, element('p', { class: 'quiet' }, `… and ${left} more; choose them in the list`)] : lists;
}

function lineClass(line: string): string {
  return line.startsWith('+') ? 'added' : line.startsWith('-') ? 'removed' : '';
}
