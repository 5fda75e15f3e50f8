import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse, parseAllDocuments } from 'yaml';
import type { ClusterSpec, NodeSpec, PodSpec } from './cluster.ts';
import type { PacketTable } from './traffic-table.ts';

/** The fields of a Kubernetes object that a cluster is built from. */
interface KubeManifest {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec?: { readonly podCIDR?: string; readonly podCIDRs?: readonly string[] };
  readonly status?: { readonly addresses?: readonly { readonly type: string; readonly address: string }[] };
  readonly ports?: readonly { readonly port: number; readonly protocol?: string }[];
  readonly endpoints?: readonly SliceEndpoint[];
}

interface EndpointPod {
  readonly node: string;
  readonly addresses: ReadonlySet<string>;
  readonly ports: ReadonlySet<string>;
}

interface SliceEndpoint {
  readonly addresses: readonly string[];
  readonly nodeName?: string;
  readonly targetRef?: { readonly name: string };
}

/**
 * Builds the machines of an example: its Nodes, the pods behind its slices, and the table's clients.
 * @param input the folder of manifests
 * @param config its sluice.yaml, which may name nodes as well
 */
export function clusterOf(input: string, config: string | undefined, table: PacketTable): ClusterSpec {
  const manifests = readManifests(input);
  const configured = config === undefined ? [] : nodesOfConfig(config);
  const nodes = [...manifests.filter(({ kind }) => kind === 'Node').map(nodeOf), ...configured];
  const pods = new Map<string, EndpointPod>();
  for (const slice of manifests.filter(({ kind }) => kind === 'EndpointSlice')) {
    const ports = (slice.ports ?? []).map(({ port, protocol = 'TCP' }) => `${port}/${protocol.toLowerCase()}`);
    for (const { targetRef, nodeName, addresses } of slice.endpoints ?? []) {
      if (!targetRef || nodeName === undefined) continue;
      const known = pods.get(targetRef.name);
      pods.set(targetRef.name, {
        node: nodeName,
        addresses: new Set([...(known?.addresses ?? []), ...addresses]),
        ports: new Set([...(known?.ports ?? []), ...ports]),
      });
    }
  }
  const endpoints: PodSpec[] = [...pods].map(([name, pod]) => ({
    name,
    node: pod.node,
    addresses: [...pod.addresses],
    // The machines here have no SCTP: such rows are for the tracer alone.
    ports: [...pod.ports].filter((port) => !port.endsWith('/sctp')),
  }));
  const clients: PodSpec[] = table.pods.map((pod) => ({ ...pod, ports: [] }));
  return { nodes, pods: [...endpoints, ...clients], outside: table.outside.addresses };
}

function readManifests(dir: string): readonly KubeManifest[] {
  const files = readdirSync(dir, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.yaml'));
  return files.toSorted().flatMap((file) => {
    const documents = parseAllDocuments(readFileSync(join(dir, file), 'utf8'));
    return [...documents].map((document) => document.toJS() as KubeManifest);
  });
}

function nodesOfConfig(file: string): readonly NodeSpec[] {
  const { nodes } = parse(readFileSync(file, 'utf8')) as { readonly nodes?: readonly NodeSpec[] };
  return (nodes ?? []).map(({ name, addresses, podCIDRs }) => ({ name, addresses, podCIDRs }));
}

function nodeOf({ metadata, spec, status }: KubeManifest): NodeSpec {
  const addresses = (status?.addresses ?? []).filter(({ type }) => type === 'InternalIP').map(({ address }) => address);
  return { name: metadata.name, addresses, podCIDRs: spec?.podCIDRs ?? (spec?.podCIDR ? [spec.podCIDR] : []) };
}
