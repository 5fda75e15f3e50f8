import type { ChangeStatus } from '../../report/services.ts';
import type { Severity } from '../../report/severity.ts';
import type { PageEndpoint, PageService } from './data.ts';

// A page of 10,000 changed Services has the worst of them whole. Of the others it has the name and what happens to them:
//
//   shop/web ⇥ changed ⇥ moves

/** The maxima that keep a page below 3 MB. A Service of five endpoints has 1,200 characters. */
export const wholeMaxima = { characters: 900_000, endpoints: 1_000 } as const;

/** Changed Services, as many as there is room for whole, and lines of the rest. */
export function boundServices(
  services: readonly PageService[],
  { characters, endpoints }: { readonly characters: number; readonly endpoints: number } = wholeMaxima,
): { readonly services: readonly PageService[]; readonly brief: readonly string[] } {
  let charactersLeft: number = characters;
  const whole: PageService[] = [];
  for (const service of services) {
    const bounded = boundEndpoints(service, endpoints);
    charactersLeft -= JSON.stringify(bounded).length;
    if (charactersLeft < 0) break;
    whole.push(bounded);
  }
  return { services: whole, brief: services.slice(whole.length).map(printBrief) };
}

const order = { removed: 0, added: 1, same: 2 } as const satisfies Record<PageEndpoint['fate'], number>;

/** Endpoints that leave or come are the last to be cut. */
function boundEndpoints(service: PageService, most: number): PageService {
  const cut = service.endpoints.length - most;
  const facts = service.facts.slice(0, most);
  if (cut <= 0) return { ...service, facts };
  const sorted = service.endpoints.toSorted((a, b) => order[a.fate] - order[b.fate]);
  return { ...service, facts, endpoints: sorted.slice(0, most), cut };
}

const printBrief = ({ name, fate, severity }: PageService): string => `${name}\t${fate}\t${severity ?? ''}`;

/** Reads a line of `boundServices`. */
export function readBrief(line: string): PageService {
  const [name = '', fate, severity = ''] = line.split('\t');
  return {
    name,
    fate: fate as ChangeStatus,
    ...(severity === '' ? {} : { severity: severity as Severity }),
    frontends: [],
    endpoints: [],
    cut: 'all',
    effects: severity === '' ? [] : [{ severity: severity as Severity, text: 'is listed in the view Changes' }],
    facts: [],
  };
}
