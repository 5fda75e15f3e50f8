import { headlessLabel, proxyNameLabel } from '../render/read/names.ts';

/** A kind that is listed. */
export interface ListKind {
  readonly kind: string;
  readonly apiVersion: string;
  /** The API group, as in the rule of a Role. */
  readonly group: string;
  readonly resource: string;
  readonly namespaced: boolean;
  /** Which objects of it, as parameters of a request; left out: all. */
  readonly only?: Readonly<Record<string, string>>;
}

/** A kind that a snapshot lists completely. */
export interface ListedKind extends ListKind {
  readonly kind: 'Service' | 'EndpointSlice' | 'Endpoints' | 'Node' | 'ServiceCIDR';
}

/** In the order of the requests of a snapshot. */
export const listedKinds = {
  Service: { kind: 'Service', apiVersion: 'v1', group: '', resource: 'services', namespaced: true },
  EndpointSlice: {
    kind: 'EndpointSlice',
    apiVersion: 'discovery.k8s.io/v1',
    group: 'discovery.k8s.io',
    resource: 'endpointslices',
    namespaced: true,
  },
  Endpoints: { kind: 'Endpoints', apiVersion: 'v1', group: '', resource: 'endpoints', namespaced: true },
  Node: { kind: 'Node', apiVersion: 'v1', group: '', resource: 'nodes', namespaced: false },
  ServiceCIDR: {
    kind: 'ServiceCIDR',
    apiVersion: 'networking.k8s.io/v1',
    group: 'networking.k8s.io',
    resource: 'servicecidrs',
    namespaced: false,
  },
} as const satisfies Record<ListedKind['kind'], ListedKind>;

/** The kinds of a cluster, by name: all of their objects, or some. */
export type ListedKinds = Readonly<Record<ListedKind['kind'], ListedKind>>;

/**
 * What a node needs of its cluster, with the selectors of kube-proxy since 1.36 (`ProxyServer.Run`): its own Node, and what is served.
 * Earlier versions leave out more, which is left to the profile.
 */
export function kindsOfNode(name: string): ListedKinds {
  const { Service, EndpointSlice, Endpoints, Node, ServiceCIDR } = listedKinds;
  const only = { labelSelector: `!${headlessLabel}` };
  return {
    Service: { ...Service, only: { labelSelector: `!${proxyNameLabel}`, fieldSelector: 'spec.clusterIP!=None' } },
    EndpointSlice: { ...EndpointSlice, only },
    Endpoints: { ...Endpoints, only },
    Node: { ...Node, only: { fieldSelector: `metadata.name=${name}` } },
    ServiceCIDR,
  };
}

/** ConfigMaps, of which only those with kube-proxy's configuration are kept. */
export const configMaps: ListKind = {
  kind: 'ConfigMap',
  apiVersion: 'v1',
  group: '',
  resource: 'configmaps',
  namespaced: true,
};

/** The namespace of kube-proxy, and the ConfigMaps that kubeadm and EKS store its configuration in. */
export const kubeProxyConfigMaps = { namespace: 'kube-system', names: ['kube-proxy', 'kube-proxy-config'] } as const;

/** The path of a list, in one namespace or everywhere. */
export function listPath(kind: ListKind, namespace?: string): string {
  const root = kind.group === '' ? `/api/${kind.apiVersion}` : `/apis/${kind.apiVersion}`;
  const within = namespace === undefined ? '' : `/namespaces/${encodeURIComponent(namespace)}`;
  return `${root}${within}/${kind.resource}`;
}

/** The path of one ConfigMap in kube-proxy's namespace. */
export const configMapPath = (name: string): string => `${listPath(configMaps, kubeProxyConfigMaps.namespace)}/${name}`;

/** The rule of a ClusterRole that grants a list, on one line of YAML. */
export function grantingRule(kind: ListKind): string {
  return `{apiGroups: ["${kind.group}"], resources: ["${kind.resource}"], verbs: ["list", "watch"]}`;
}

/** The rule of a Role in that namespace that grants reading these ConfigMaps, and no other. */
export const configMapRule = `{apiGroups: [""], resources: ["configmaps"], resourceNames: [${kubeProxyConfigMaps.names.map((name) => `"${name}"`).join(', ')}], verbs: ["get"]}`;

/** The rule that grants the search in all ConfigMaps of that namespace. */
export const configMapsRule = '{apiGroups: [""], resources: ["configmaps"], verbs: ["list"]}';
