import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';
import type { Example } from '../../tools/examples.ts';
import type { KubeItem } from './api-server.ts';
import { nodes as dualNodes } from './clusters.ts';

/** The objects of an example as an API server stores them, with the defaults that manifests leave out. */
export function objectsOf({ input }: Example): readonly KubeItem[] {
  const names = readdirSync(input, { recursive: true, encoding: 'utf8' }).filter((name) => /\.ya?ml$/.test(name));
  const items = names
    .toSorted()
    .flatMap((name) => parseAllDocuments(readFileSync(join(input, name), 'utf8')))
    .map((document) => document.toJS() as KubeItem | null)
    .filter((item) => item !== null);
  const services = items.filter(({ kind }) => kind === 'Service').map((item, at) => storedService(item, at));
  const slices = items.filter(({ kind }) => kind === 'EndpointSlice').map(storedSlice);
  return [...nodes, ...services, ...slices];
}

/** For all examples alike, so that one kube-proxy serves them: the zones are those of example 06. */
export const nodes: readonly KubeItem[] = dualNodes.map((node, at) => ({
  ...node,
  metadata: {
    ...node.metadata,
    labels: { ...node.metadata.labels, 'topology.kubernetes.io/zone': at === 0 ? 'a' : 'b' },
  },
}));

interface ServiceSpec {
  readonly type?: string;
  readonly clusterIP?: string;
  readonly clusterIPs?: readonly string[];
  readonly sessionAffinity?: string;
  readonly sessionAffinityConfig?: object;
  readonly ports?: readonly {
    readonly port: number;
    readonly nodePort?: number;
  }[];
}

/** Annotations are left out: those of Sluice have no counterpart. @param at its number, for what an API server allocates */
function storedService(item: KubeItem, at: number): KubeItem {
  const { spec: written, status, ...rest } = item as KubeItem & { spec: ServiceSpec; status?: object };
  const { name, namespace = 'default', labels } = item.metadata;
  const { type = 'ClusterIP', ports = [] } = written;
  const given = written.clusterIP ?? (type === 'ExternalName' ? undefined : `10.96.2.${10 + at}`);
  const clusterIPs = written.clusterIPs ?? (given === undefined ? [] : [given]);
  const hasNodePorts = type === 'NodePort' || type === 'LoadBalancer';
  const spec = {
    type,
    internalTrafficPolicy: 'Cluster',
    ...(hasNodePorts ? { externalTrafficPolicy: 'Cluster' } : {}),
    sessionAffinity: 'None',
    ...(written.sessionAffinity === 'ClientIP'
      ? { sessionAffinityConfig: { clientIP: { timeoutSeconds: 10_800 } } }
      : {}),
    ...written,
    ...(clusterIPs.length === 0
      ? {}
      : { clusterIP: clusterIPs[0], clusterIPs, ipFamilies: clusterIPs.filter(isAddress).map(familyOf) }),
    ports: ports.map((port, n) => ({
      protocol: 'TCP',
      targetPort: port.port,
      ...(hasNodePorts ? { nodePort: 31_000 + 10 * at + n } : {}),
      ...port,
    })),
  };
  return {
    ...rest,
    metadata: { name, namespace, ...(labels ? { labels } : {}) },
    spec,
    status: status ?? { loadBalancer: {} },
  } as KubeItem;
}

const isAddress = (text: string): boolean => text !== 'None';
const familyOf = (text: string): string => (text.includes(':') ? 'IPv6' : 'IPv4');

function storedSlice(item: KubeItem): KubeItem {
  const { ports = [], ...rest } = item as KubeItem & { ports?: readonly object[] };
  const metadata = { namespace: 'default', ...rest.metadata };
  return { ...rest, metadata, ports: ports.map((port) => ({ name: '', protocol: 'TCP', ...port })) } as KubeItem;
}
