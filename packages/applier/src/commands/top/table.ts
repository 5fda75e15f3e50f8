import { compareText, terminalText } from '@sluice/netfilter';
import type { Imbalance } from '../../counts/balance.ts';
import type { EndpointConnections, ServiceConnections } from '../../counts/most.ts';
import type { StatusReport } from '../../status/status.ts';
import type { Order } from '../options/orders.ts';

/** The part of a status that is shown. */
export type Counted = Pick<StatusReport, 'node' | 'countedSeconds'> & {
  readonly imbalances: readonly Imbalance[];
  readonly services: readonly ServiceConnections[];
};

const comparisons: Readonly<Record<Order, (a: ServiceConnections, b: ServiceConnections) => number>> = {
  connections: (a, b) => b.connections - a.connections,
  rate: (a, b) => b.recent - a.recent,
  imbalance: (a, b) => distanceOf(b) - distanceOf(a),
  name: () => 0,
};

/** The farthest that an endpoint is from its share. */
const distanceOf = ({ endpoints }: ServiceConnections): number =>
  Math.max(0, ...endpoints.map(({ share, expectedShare }) => Math.abs((share ?? 0) - (expectedShare ?? share ?? 0))));

/** What an operator asks for. */
export interface Choice {
  readonly sort: Order;
  /** `shop/web` with all its ports, or `shop/web:http`. */
  readonly service?: string | undefined;
  readonly number?: number | undefined;
}

/** The Services that an operator asks for, in that order; equal ones by name. */
export function chosen(
  services: readonly ServiceConnections[],
  { sort, service: wanted, number }: Choice,
): readonly ServiceConnections[] {
  return services
    .filter(({ service }) => wanted === undefined || service === wanted || service.startsWith(`${wanted}:`))
    .toSorted((a, b) => comparisons[sort](a, b) || compareText(a.service, b.service))
    .slice(0, number);
}

/**
 * A table of Services and their endpoints, with a line about the numbers above it. Where another program holds the status port, all texts are
 * its own: none may steer the terminal.
 */
export function printTable({ node, countedSeconds, services, imbalances }: Counted): string {
  const far = new Set(imbalances.map(({ service, endpoint }) => `${service} ${endpoint}`));
  const rows = services.flatMap((one) => [
    [one.service, String(one.connections), rate(one.recent, countedSeconds)],
    ...one.endpoints.map((endpoint) => [
      ...endpointRow(endpoint, one, countedSeconds),
      far.has(`${one.service} ${endpoint.endpoint}`) ? 'far from its share' : '',
    ]),
  ]);
  const over = countedSeconds === null ? 'the first reading' : `rates over the last ${Math.round(countedSeconds)} s`;
  const head = ['SERVICE', 'CONNECTIONS', 'PER SECOND', 'SHARE', 'EXPECTED'];
  return `${terminalText(node)}: new connections, ${over}\n\n${columns([head, ...rows.map((row) => row.map(terminalText))])}`;
}

const endpointRow = (
  { endpoint, connections, recent, share, expectedShare }: EndpointConnections,
  service: ServiceConnections,
  seconds: number | null,
): readonly string[] => [
  `  ${endpoint}`,
  String(connections),
  rate(recent, seconds),
  percent(share ?? connections / service.connections),
  expectedShare === null ? '-' : percent(expectedShare),
];

const rate = (recent: number, seconds: number | null): string => (seconds ? (recent / seconds).toFixed(1) : '-');
const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;

/** The first column to the left, numbers to the right. */
function columns(rows: readonly (readonly string[])[]): string {
  // A mark at the end has no head.
  const widths = (rows[0] ?? []).map((_, at) => Math.max(...rows.map((row) => row[at]?.length ?? 0)));
  const line = (row: readonly string[]): string =>
    row.map((cell, at) => (at === 0 ? cell.padEnd(widths[at] ?? 0) : cell.padStart(widths[at] ?? 0))).join('  ');
  return rows.map((row) => `${line(row).trimEnd()}\n`).join('');
}
