/** Fields that change no packet in any mode, with the reason: they are no rows of the table. */

const withReason = (why: string, ...fields: readonly string[]): Readonly<Record<string, string>> =>
  Object.fromEntries(fields.map((field) => [field, why]));

/** In every object. */
const bookkeeping: readonly string[] = [
  'apiVersion',
  'kind',
  ...`generateName selfLink uid resourceVersion generation creationTimestamp deletionTimestamp deletionGracePeriodSeconds ownerReferences finalizers managedFields clusterName initializers`
    .split(' ')
    .map((field) => `metadata.${field}`),
];

const of = (kind: string, fields: readonly string[]): readonly string[] => fields.map((field) => `${kind} ${field}`);

export const withoutMeaning: Readonly<Record<string, string>> = {
  ...withReason(
    'bookkeeping of the API server',
    ...of('Service', [...bookkeeping, 'status.conditions']),
    ...of('EndpointSlice', bookkeeping),
  ),
  ...withReason(
    'the identity of the object: other names give other names of chains',
    ...of('Service', ['metadata.name', 'metadata.namespace']),
    ...of('EndpointSlice', ['metadata.name', 'metadata.namespace']),
  ),
  ...withReason(
    'endpoints are those of EndpointSlices, whose controller follows it',
    ...of('Service', ['spec.selector', 'spec.ports.targetPort', 'spec.publishNotReadyAddresses']),
    'Service spec.trafficDistribution',
  ),
  ...withReason(
    'a hint for programs that speak the protocol',
    'Service spec.ports.appProtocol',
    'EndpointSlice ports.appProtocol',
  ),
  ...withReason(
    'for the controller of load balancers, which writes the status',
    ...of('Service', ['spec.loadBalancerIP', 'spec.loadBalancerClass']),
  ),
  ...withReason(
    'for clients of the DNS of the cluster',
    'Service spec.externalName',
    'Service status.loadBalancer.ingress.hostname',
    'EndpointSlice endpoints.hostname',
  ),
  ...withReason(
    'of Kubernetes before 1.20, and later versions have other fields',
    ...of('Service', ['spec.ipFamily', 'spec.topologyKeys']),
  ),
  ...withReason('an error of a port that its controller reports', 'Service status.loadBalancer.ingress.ports'),
  ...withReason(
    'no version of kube-proxy reads it',
    ...of('EndpointSlice', ['metadata.annotations', 'endpoints.targetRef', 'endpoints.deprecatedTopology']),
  ),
  'EndpointSlice endpoints.zone':
    'hints say which zones an endpoint is for; the zone of the endpoint itself is for their controller',
  ...withReason('the format itself', ...of('KubeProxyConfiguration', ['apiVersion', 'kind'])),
  'KubeProxyConfiguration featureGates': 'each gate is a row of its own',
  'KubeProxyConfiguration mode': 'the modes are the columns',
};
