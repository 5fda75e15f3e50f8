import { addAll, type Problem, nearest } from '@sluice/netfilter';
import type { Json, JsonObject, KubeKind, KubeObject, Path } from '../model/kube.ts';
import { report, pathText, type FieldSpot, type Subject, spotOf } from './fields.ts';
import { betaSlices, titleOf } from './names.ts';
import { quote } from './text.ts';

/** The fields of a mapping; `any`: not checked further, such as the map of a selector. */
interface Fields {
  readonly [name: string]: Fields | typeof any;
}
const any = 'any';

const fields = <N extends string>(...names: readonly N[]): Readonly<Record<N, typeof any>> =>
  Object.fromEntries(names.map((name) => [name, any])) as Record<N, typeof any>;

const metadata = fields(
  'name',
  'generateName',
  'namespace',
  'selfLink',
  'uid',
  'resourceVersion',
  'generation',
  'creationTimestamp',
  'deletionTimestamp',
  'deletionGracePeriodSeconds',
  'labels',
  'annotations',
  'ownerReferences',
  'finalizers',
  'managedFields',
  'clusterName',
  'initializers',
);
const top = { ...fields('apiVersion', 'kind'), metadata } as const;
const endpointAddress = fields('ip', 'hostname', 'nodeName', 'targetRef');
const endpointPort = fields('name', 'port', 'protocol', 'appProtocol');

/** An EndpointSlice; its versions differ in the fields for an endpoint's location. */
const slice = (...location: readonly string[]): Fields => ({
  ...top,
  addressType: any,
  endpoints: {
    ...fields('addresses', 'hostname', 'targetRef', 'nodeName', ...location),
    conditions: fields('ready', 'serving', 'terminating'),
    hints: fields('forZones', 'forNodes'),
  },
  ports: endpointPort,
});
const betaSlice = slice('topology');

/**
 * Every field of each kind, in all versions since 1.19, also those that Sluice does not use (`k8s.io/api`, `core/v1/types.go`,
 * `discovery/v1/types.go`, `discovery/v1beta1/types.go`, `networking/v1/types.go`, `meta/v1/types.go`). In a Node only metadata is
 * checked.
 */
const known: Readonly<Record<KubeKind, Fields>> = {
  Service: {
    ...top,
    spec: {
      ports: fields('name', 'protocol', 'appProtocol', 'port', 'targetPort', 'nodePort'),
      selector: any,
      ...fields('clusterIP', 'clusterIPs', 'type', 'externalIPs', 'sessionAffinity', 'loadBalancerIP'),
      ...fields('loadBalancerSourceRanges', 'externalName', 'externalTrafficPolicy', 'healthCheckNodePort'),
      ...fields('publishNotReadyAddresses', 'ipFamilies', 'ipFamilyPolicy', 'ipFamily', 'topologyKeys'),
      ...fields('allocateLoadBalancerNodePorts', 'loadBalancerClass', 'internalTrafficPolicy', 'trafficDistribution'),
      sessionAffinityConfig: { clientIP: fields('timeoutSeconds') },
    },
    status: { loadBalancer: { ingress: fields('ip', 'hostname', 'ipMode', 'ports') }, conditions: any },
  },
  EndpointSlice: slice('zone', 'deprecatedTopology'),
  Endpoints: {
    ...top,
    subsets: { addresses: endpointAddress, notReadyAddresses: endpointAddress, ports: endpointPort },
  },
  Node: { ...top, spec: any, status: any },
  ServiceCIDR: { ...top, spec: fields('cidrs'), status: fields('conditions') },
};

/** The most unknown fields reported per object: a hostile one has hundreds of thousands. */
const unknownMax = 20;

/** The paths of all fields of a kind, in all versions: `spec.ports.nodePort`. */
export function knownFields(kind: KubeKind): readonly string[] {
  const all = kind === 'EndpointSlice' ? [known[kind], betaSlice] : [known[kind]];
  return [...new Set(all.flatMap((one) => pathsOf(one)))];
}

const pathsOf = (allowed: Fields): readonly string[] =>
  Object.entries(allowed).flatMap(([name, below]) =>
    below === any ? [name] : pathsOf(below).map((path) => `${name}.${path}`),
  );

/** Warns of unknown fields, which Kubernetes drops silently: without its `targetport`, a port sends packets to the default target. */
export function checkFields(object: KubeObject, problems: Problem[]): void {
  const found: Problem[] = [];
  const subject: Subject = { title: titleOf(object), object, problems: found, broken: false };
  checkMapping(spotOf(subject), object.value, [], object.apiVersion === betaSlices ? betaSlice : known[object.kind]);
  addAll(problems, found);
}

function checkMapping(root: FieldSpot, value: JsonObject, path: Path, allowed: Fields): void {
  for (const key of Object.keys(value)) {
    if (root.subject.problems.length >= unknownMax) return;
    const below = Object.hasOwn(allowed, key) ? allowed[key] : undefined;
    if (below === undefined) unknownField(root, [...path, key], key, Object.keys(allowed));
    else if (below !== any) checkBelow(root, value[key] ?? null, [...path, key], below);
  }
}

function checkBelow(root: FieldSpot, value: Json, path: Path, allowed: Fields): void {
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) checkBelow(root, item as Json, [...path, index], allowed);
  } else if (typeof value === 'object' && value !== null) checkMapping(root, value as JsonObject, path, allowed);
}

function unknownField(root: FieldSpot, path: Path, key: string, names: readonly string[]): void {
  const guess = nearest(key, names);
  report(root, path, {
    code: 'FIELD_UNKNOWN',
    level: 'warning',
    message: `Cannot use field ${quote(key)} of ${pathText(root, path.slice(0, -1)) || 'the object'}: Kubernetes has no such field`,
    hint: guess === undefined ? 'Remove it, or move it to the right place' : `Did you mean ${guess}?`,
  });
}
