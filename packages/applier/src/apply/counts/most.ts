import { compareText } from '@sluice/netfilter';
import { limits } from '../../limits.ts';
import type { EndpointBalance } from './balance.ts';
import type { ServiceEndpointCount } from './connection-totals.ts';
import type { Traffic, TrafficReading } from './traffic.ts';

/** What is known of an endpoint or a Service port. A figure that nothing reads is null. */
interface Figures {
  /** New ones. */
  readonly connections: number | null;
  /** Those of them that came between the last two readings. */
  readonly recent: number | null;
  /** Connections that have not ended. */
  readonly live: number | null;
  /** `Traffic.bytes`; null also where the kernel does not count them. */
  readonly bytes: number | null;
}

/** Connections to an endpoint of a Service port. */
export interface EndpointConnections extends Figures {
  /** `10.244.1.5:8080` */
  readonly endpoint: string;
  /** Its part of the new connections of some minutes, and the part that it should have had by chance; null where the latter is not known. */
  readonly share: number | null;
  readonly expectedShare: number | null;
}

/** Connections to a Service port. */
export interface ServiceConnections extends Figures {
  /** `shop/web:http`; in modes ipvs and nftables `shop/web`, with all its ports. */
  readonly service: string;
  /** Those with most connections first. */
  readonly endpoints: readonly EndpointConnections[];
}

/** What was read. */
interface Readings {
  /** New connections; undefined: they are not counted. */
  readonly counts: readonly ServiceEndpointCount[] | undefined;
  /** Undefined: it was not read. */
  readonly traffic: TrafficReading | undefined;
  /** Whether `traffic` has some Services alone: of another one nothing is known. Left out: another one has no connections. */
  readonly isPart?: boolean;
  /** Whether the kernel counts bytes. */
  readonly hasBytes: boolean;
}

const figures = ['connections', 'live', 'bytes'] as const;

/** The order in which most of a figure comes first. */
export const byMost =
  (figure: (typeof figures)[number]) =>
  (a: Pick<Figures, typeof figure>, b: Pick<Figures, typeof figure>): number =>
    (b[figure] ?? 0) - (a[figure] ?? 0);

/**
 * The Services with most new connections, live connections or bytes, each as many as are told.
 * @param balanceOf what the endpoints of a Service got and should have got
 * @param most how many are told of each figure
 */
export function busiestServices(
  readings: Readings,
  balanceOf: (service: string) => ReadonlyMap<string, EndpointBalance>,
  most: number = limits.countedFrontendsShown,
): readonly ServiceConnections[] {
  const own = Map.groupBy(readings.counts ?? [], ({ service }) => service);
  const names = [...new Set([...own.keys(), ...(readings.traffic?.keys() ?? [])])];
  const services = names.map((service) => ({
    service,
    ...figuresOf(readings, own.get(service), trafficOf(readings, service)),
  }));
  const busiest = figures.flatMap((figure) =>
    services
      .filter((one) => (one[figure] ?? 0) > 0)
      .toSorted((a, b) => byMost(figure)(a, b) || compareText(a.service, b.service))
      .slice(0, most),
  );
  return [...new Set(busiest)]
    .toSorted((a, b) => byMost('connections')(a, b) || byMost('live')(a, b) || compareText(a.service, b.service))
    .map((one) => ({
      ...one,
      endpoints: busiestEndpoints(readings, own.get(one.service) ?? [], one.service, balanceOf(one.service)),
    }));
}

/** By endpoint; undefined: not known. */
const trafficOf = ({ traffic, isPart = false }: Readings, service: string): ReadonlyMap<string, Traffic> | undefined =>
  traffic?.get(service) ?? (traffic && !isPart ? new Map() : undefined);

function figuresOf(
  { counts, hasBytes }: Readings,
  counted: readonly ServiceEndpointCount[] | undefined,
  traffic: ReadonlyMap<string, Traffic> | undefined,
): Figures {
  const read = [...(traffic?.values() ?? [])];
  const sum = <T>(all: readonly T[], of: (one: T) => number): number => all.reduce((total, one) => total + of(one), 0);
  return {
    connections: counts ? sum(counted ?? [], ({ connections }) => connections) : null,
    recent: counts ? sum(counted ?? [], ({ recent }) => recent) : null,
    live: traffic ? sum(read, ({ live }) => live) : null,
    bytes: traffic && hasBytes ? sum(read, ({ bytes }) => bytes) : null,
  };
}

/** Also those without connections that should have some. */
function busiestEndpoints(
  readings: Readings,
  own: readonly ServiceEndpointCount[],
  service: string,
  balances: ReadonlyMap<string, EndpointBalance>,
): readonly EndpointConnections[] {
  const all = [...balances.values()].reduce((sum, { expected }) => sum + expected, 0);
  const part = (connections: number | undefined): number | null =>
    connections === undefined || all === 0 ? null : Math.round((10_000 * connections) / all) / 10_000;
  const counted = new Map(own.map((one) => [one.endpoint, one]));
  const read = trafficOf(readings, service);
  return [...new Set([...counted.keys(), ...balances.keys(), ...(read?.keys() ?? [])])]
    .map((endpoint) => {
      const [count, traffic] = [counted.get(endpoint), read?.get(endpoint)];
      const its = read && new Map(traffic ? [[endpoint, traffic]] : []);
      return {
        endpoint,
        ...figuresOf(readings, count ? [count] : [], its),
        share: part(balances.get(endpoint)?.connections),
        expectedShare: part(balances.get(endpoint)?.expected),
      };
    })
    .toSorted((a, b) => byMost('connections')(a, b) || byMost('live')(a, b) || compareText(a.endpoint, b.endpoint))
    .slice(0, limits.countedEndpointsShown);
}
