/** A kind that a snapshot lists completely. */
export interface ListedKind {
  readonly kind: 'Service' | 'EndpointSlice' | 'Endpoints' | 'Node' | 'ServiceCIDR';
  readonly apiVersion: string;
  /** The API group, as in the rule of a Role. */
  readonly group: string;
  readonly resource: string;
  readonly namespaced: boolean;
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

/** The ConfigMap in which kubeadm stores kube-proxy's configuration. */
export const kubeProxyConfigMap = { namespace: 'kube-system', name: 'kube-proxy' } as const;

/** The path of a list, in one namespace or everywhere. */
export function listPath(kind: ListedKind, namespace?: string): string {
  const root = kind.group === '' ? `/api/${kind.apiVersion}` : `/apis/${kind.apiVersion}`;
  const within = namespace === undefined ? '' : `/namespaces/${encodeURIComponent(namespace)}`;
  return `${root}${within}/${kind.resource}`;
}

export const kubeProxyPath = `/api/v1/namespaces/${kubeProxyConfigMap.namespace}/configmaps/${kubeProxyConfigMap.name}`;

/** The rule of a ClusterRole that grants a list, on one line of YAML. */
export function grantingRule(kind: ListedKind): string {
  return `{apiGroups: ["${kind.group}"], resources: ["${kind.resource}"], verbs: ["list", "watch"]}`;
}

/** The rule of a Role in its namespace that grants reading kube-proxy's configuration. */
export const configMapRule = `{apiGroups: [""], resources: ["configmaps"], resourceNames: ["${kubeProxyConfigMap.name}"], verbs: ["get"]}`;
