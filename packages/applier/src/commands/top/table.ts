import { columns } from '@sluice/cli';
import { compareText, terminalText } from '@sluice/netfilter';
import type { Imbalance } from '../../apply/counts/balance.ts';
import { byMost, type EndpointConnections, type ServiceConnections } from '../../apply/counts/most.ts';
import type { StatusReport } from '../../observe/status/status.ts';
import type { Order } from '../options/options.ts';

/** The part of a status that is shown. */
export type Counted = Pick<StatusReport, 'node' | 'countedSeconds' | 'traffic'> & {
  readonly imbalances: readonly Imbalance[];
  readonly services: readonly ServiceConnections[];
};

const comparisons: Readonly<Record<Order, (a: ServiceConnections, b: ServiceConnections) => number>> = {
  connections: byMost('connections'),
  rate: (a, b) => (b.recent ?? 0) - (a.recent ?? 0),
  live: byMost('live'),
  bytes: byMost('bytes'),
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
export function printTable({ node, countedSeconds, traffic, services, imbalances }: Counted): string {
  const far = new Set(imbalances.map(({ service, endpoint }) => `${service} ${endpoint}`));
  const rows = services.flatMap((one) => [
    [one.service, ...figuresOf(one, countedSeconds)],
    ...one.endpoints.map((endpoint) => [
      `  ${endpoint.endpoint}`,
      ...figuresOf(endpoint, countedSeconds),
      ...sharesOf(endpoint, one),
      far.has(`${one.service} ${endpoint.endpoint}`) ? 'far from its share' : '',
    ]),
  ]);
  const head = ['SERVICE', 'CONNECTIONS', 'PER SECOND', 'LIVE', 'BYTES', 'SHARE', 'EXPECTED'];
  const table = columns([head, ...rows.map((row) => row.map(terminalText))], true);
  return `${terminalText(node)}: ${[readingsOf(countedSeconds), ...trafficOf(traffic)].join('; ')}\n\n${table}`;
}

const readingsOf = (seconds: number | null): string =>
  seconds === null
    ? 'new connections, the first reading'
    : `new connections, rates over the last ${Math.round(seconds)} s`;

/** What live connections and bytes are. A daemon of an older version tells nothing of them. */
function trafficOf(traffic: Counted['traffic'] | undefined): readonly string[] {
  if (!traffic) return [];
  const { seconds, hasBytes } = traffic;
  return [
    seconds === null ? 'live connections, the first reading' : `live connections, read every ${Math.round(seconds)} s`,
    ...(hasBytes ? [] : ['bytes are not counted: net.netfilter.nf_conntrack_acct is 0, as Linux has it']),
  ];
}

type Figures = Pick<ServiceConnections, 'connections' | 'recent' | 'live' | 'bytes'>;

const figuresOf = ({ connections, recent, live, bytes }: Figures, seconds: number | null): readonly string[] => [
  String(connections ?? '-'),
  seconds && recent !== null ? (recent / seconds).toFixed(1) : '-',
  String(live ?? '-'),
  bytes === null || bytes === undefined ? '-' : size(bytes),
];

const sharesOf = (
  { connections, share, expectedShare }: EndpointConnections,
  service: ServiceConnections,
): readonly string[] => {
  const part = share ?? (connections !== null && service.connections ? connections / service.connections : null);
  return [part, expectedShare].map((one) => (one === null ? '-' : `${(100 * one).toFixed(1)} %`));
};

const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'] as const;

/** `512 B`, `1.5 MiB` */
function size(bytes: number): string {
  const power = Math.min(Math.floor(Math.log2(Math.max(bytes, 1)) / 10), units.length - 1);
  return `${power === 0 ? bytes : (bytes / 1024 ** power).toFixed(1)} ${units[power] ?? ''}`;
}
