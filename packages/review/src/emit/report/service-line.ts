import type { ReportFrontend } from '../../report/services.ts';
import type { PageEndpoint, PageService } from './data.ts';

// Unchanged Services are most of a page: each is one line of a tenth of the size of the object that it stands for.
//
//   shop/web ⇥ c10.96.0.10:80,n30080/TCP ⇥ 80/TCP 10.244.1.5:8080@0 10.244.2.5:8080@3*0.75 ⇥ 443/TCP …
//
// Frontends start with a letter for their kind. An endpoint has the index of its node behind @, and its share behind *, unless the
// endpoints of the port and family share equally.

const letters = { cluster: 'c', external: 'e', 'load-balancer': 'l', 'node-port': 'n' } as const satisfies Record<
  ReportFrontend['kind'],
  string
>;
const kinds: ReadonlyMap<string, ReportFrontend['kind']> = new Map(
  Object.entries(letters).map(([kind, letter]) => [letter, kind as ReportFrontend['kind']]),
);

type Plain = Pick<PageService, 'name' | 'frontends' | 'endpoints'>;

/** The line of a Service to which nothing happens. */
export function printServiceLine({ name, frontends, endpoints }: Plain): string {
  const ports = [...Map.groupBy(endpoints, ({ port }) => port)].map(([port, own]) => {
    const equal = equalShares(own.map(({ text }) => text));
    return [port, ...own.map((endpoint) => printEndpoint(endpoint, equal(endpoint.text)))].join(' ');
  });
  return [name, frontends.map(({ kind, text }) => `${letters[kind]}${text}`).join(','), ...ports].join('\t');
}

/** Reads a line of `printServiceLine`. */
export function readServiceLine(line: string): PageService {
  const [name = '', frontends = '', ...ports] = line.split('\t');
  return {
    name,
    fate: 'same',
    frontends: frontends
      .split(',')
      .filter(Boolean)
      .map((one) => ({ kind: kinds.get(one.slice(0, 1)) ?? 'cluster', text: one.slice(1), fate: 'same' })),
    endpoints: ports.flatMap(readPort),
    effects: [],
    facts: [],
  };
}

function readPort(text: string): readonly PageEndpoint[] {
  const [port = '', ...endpoints] = text.split(' ');
  const parts = endpoints.map((one) => /^([^@*]*)(?:@(\d+))?(?:\*(.+))?$/.exec(one) ?? ['', one]);
  const equal = equalShares(parts.map(([, address = '']) => address));
  return parts.map(([, address = '', at, given]) => {
    const share = given === undefined ? equal(address) : Number(given);
    const node = at === undefined ? {} : { at: Number(at) };
    return { text: address, port, fate: 'same', before: share, after: share, ...node };
  });
}

function printEndpoint({ text, at, after = 0 }: PageEndpoint, equal: number): string {
  const share = Math.abs(after - equal) < 1e-6 ? '' : `*${Number(after.toFixed(4))}`;
  return `${text}${at === undefined ? '' : `@${at}`}${share}`;
}

/** The share of an endpoint when those of its family share equally. */
function equalShares(texts: readonly string[]): (text: string) => number {
  const isIPv6 = (text: string): boolean => text.startsWith('[');
  const six = texts.filter(isIPv6).length;
  return (text) => 1 / Math.max(1, isIPv6(text) ? six : texts.length - six);
}
