import { Gauge, type Registry } from 'prom-client';
import { byMost, type ServiceConnections } from '../counts/most.ts';

const when = {
  connections:
    'since sluiced started or the kernel counts; modes iptables and ipvs with countConnections, mode nftables with nftables.endpointCounters',
  live: 'at the last reading; with countTraffic',
  bytes:
    'of tracked connections, in mode ipvs since the server was added; with countTraffic, outside of mode ipvs also net.netfilter.nf_conntrack_acct',
} as const;

const figures = [
  { figure: 'connections', name: 'connections', what: 'New connections' },
  { figure: 'live', name: 'live_connections', what: 'Live connections' },
  { figure: 'bytes', name: 'bytes', what: 'Bytes in both directions' },
] as const;

/** What Services and endpoints have, each figure of those that have most: the number of series is bounded. */
export class TrafficMetrics {
  readonly #gauges: readonly {
    readonly figure: (typeof figures)[number]['figure'];
    readonly services: Gauge<'service'>;
    readonly endpoints: Gauge<'service' | 'endpoint'>;
  }[];

  constructor(registry: Registry) {
    this.#gauges = figures.map(({ figure, name, what }) => ({
      figure,
      services: new Gauge({
        name: `sluice_service_${name}`,
        help: `${what} of the Service ports that have most (countedServices), ${when[figure]}`,
        labelNames: ['service'],
        registers: [registry],
      }),
      endpoints: new Gauge({
        name: `sluice_endpoint_${name}`,
        help: 'The same of as many endpoints of these, those that have most',
        labelNames: ['service', 'endpoint'],
        registers: [registry],
      }),
    }));
  }

  /** @param most series of each gauge */
  take(services: readonly ServiceConnections[], most: number): void {
    for (const { figure, services: ofServices, endpoints } of this.#gauges) {
      // Others have most now.
      ofServices.reset();
      endpoints.reset();
      const busiest = services.toSorted(byMost(figure)).slice(0, most);
      for (const { service, [figure]: value } of busiest) if (value !== null) ofServices.set({ service }, value);
      const all = busiest.flatMap(({ service, endpoints: own }) => own.map((one) => ({ ...one, service })));
      for (const { service, endpoint, [figure]: value } of all.toSorted(byMost(figure)).slice(0, most))
        if (value !== null) endpoints.set({ service, endpoint }, value);
    }
  }
}
