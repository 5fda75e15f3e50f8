// The cluster that all subjects serve, and the addresses of the one node that they run on.
import { clusterList } from '../data.ts';

export type ListItem = {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
};

export const nodeName = 'node-0000';
export const nodeAddress = '192.168.0.1';
export const clusterCIDR = '10.128.0.0/9';
export const namespaces = Array.from({ length: 50 }, (_, n) => `ns-${n}`);
/** The endpoints on the node of the witness: each of its Services has one of them. */
export const servers = ['10.250.0.1', '10.250.0.2'] as const;

/** An endpoint of the last Service, or the Service itself: its port gets the name of the ports of another slice. */
export type Changing = 'endpoint' | 'service';

export interface ParityCluster {
  readonly items: readonly ListItem[];
  /** The Services that the witness probes: the first, one in the middle, the last. */
  readonly asked: readonly string[];
  /** The slice of the last Service, or the Service, with another endpoint. */
  readonly moved: (server: string) => ListItem;
  /** The slices that the witness does not probe, each with its first endpoint replaced. */
  readonly churn: (turn: number) => ListItem;
}

type SliceShape = ListItem & { readonly ports: readonly object[]; readonly endpoints: readonly object[] };
type ServiceShape = ListItem & { readonly spec: { readonly clusterIP: string; readonly ports: readonly object[] } };

/** @param services at least 3 */
export function parityCluster(services: number, endpointsPerService: number, changing: Changing): ParityCluster {
  const list = clusterList({ services, endpointsPerService, nodes: 1 }).items as unknown as ListItem[];
  const asked = [0, services >> 1, services - 1].map((n) => `svc-${n}`);
  const isAsked = ({ metadata: { name } }: ListItem): boolean =>
    asked.some((service) => name === service || name === `${service}-abcde`);
  const items = list.map((item) => {
    if (item.kind === 'Node') return { ...item, status: { addresses: [{ type: 'InternalIP', address: nodeAddress }] } };
    if (!isAsked(item)) return item;
    return item.kind === 'Service' ? overUdp(item as ServiceShape) : servedBy(item as SliceShape, servers[0]);
  });
  const slices = items.filter((item) => item.kind === 'EndpointSlice') as SliceShape[];
  const others = slices.filter((item) => !isAsked(item));
  const serviceOf = (name: string | undefined): ServiceShape =>
    items.find((item) => item.kind === 'Service' && item.metadata.name === name) as ServiceShape;
  const [service, slice] = [serviceOf(asked.at(-1)), slices.at(-1) as SliceShape];
  const other = { ...slice, metadata: { ...slice.metadata, name: `${slice.metadata.name}-other` } };
  return {
    items: changing === 'service' ? [...items, named(servedBy(other, servers[1]), 'other')] : items,
    asked: asked.map((name) => serviceOf(name).spec.clusterIP),
    moved: (server) => {
      if (changing === 'endpoint') return servedBy(slice, server);
      const { ports } = named(service.spec, server === servers[0] ? 'http' : 'other');
      return { ...service, spec: { ...service.spec, ports } };
    },
    churn: (turn) => elsewhere(others[turn % others.length] as SliceShape, turn),
  };
}

const inUdp = (ports: readonly object[]): readonly object[] => ports.map((port) => ({ ...port, protocol: 'UDP' }));

const named = <T extends { readonly ports: readonly object[] }>(of: T, name: string): T => ({
  ...of,
  ports: of.ports.map((port) => ({ ...port, name })),
});

const overUdp = (service: ServiceShape): ServiceShape => ({
  ...service,
  spec: { ...service.spec, ports: inUdp(service.spec.ports) },
});

const servedBy = (slice: SliceShape, server: string): SliceShape => ({
  ...slice,
  ports: inUdp(slice.ports),
  endpoints: slice.endpoints.slice(0, 1).map((endpoint) => ({ ...endpoint, addresses: [server] })),
});

const elsewhere = (slice: SliceShape, turn: number): SliceShape => ({
  ...slice,
  endpoints: slice.endpoints.map((endpoint, n) =>
    n === 0 ? { ...endpoint, addresses: [`10.251.${(turn >> 8) & 255}.${turn & 255}`] } : endpoint,
  ),
});
