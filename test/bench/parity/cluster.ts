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

export interface ParityCluster {
  readonly items: readonly ListItem[];
  /** The Services that the witness probes: the first, one in the middle, the last. */
  readonly asked: readonly string[];
  /** The slice of the last Service, with another endpoint. */
  readonly moved: (server: string) => ListItem;
  /** The slices that the witness does not probe, each with its first endpoint replaced. */
  readonly churn: (turn: number) => ListItem;
}

type SliceShape = ListItem & { readonly ports: readonly object[]; readonly endpoints: readonly object[] };
type ServiceShape = ListItem & { readonly spec: { readonly clusterIP: string; readonly ports: readonly object[] } };

/** @param services at least 3 */
export function parityCluster(services: number, endpointsPerService: number): ParityCluster {
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
  const addressOf = (name: string): string =>
    (items.find((item) => item.kind === 'Service' && item.metadata.name === name) as ServiceShape).spec.clusterIP;
  return {
    items,
    asked: asked.map(addressOf),
    moved: (server) => servedBy(slices.at(-1) as SliceShape, server),
    churn: (turn) => elsewhere(others[turn % others.length] as SliceShape, turn),
  };
}

const inUdp = (ports: readonly object[]): readonly object[] => ports.map((port) => ({ ...port, protocol: 'UDP' }));

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
