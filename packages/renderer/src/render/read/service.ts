import type { Family, Problem, Scheduler } from '@sluice/netfilter';
import type { KubeObject } from '../kube.ts';
import type { WeightRule } from '../model.ts';
import { asksForHints, readScheduler, readWeights } from './annotations.ts';
import { report, emptyIn, flagIn, mappingIn, type FieldSpot, valueIn, wordIn } from './fields.ts';
import { type ForeignLabel, foreignLabelOfService, identify } from './names.ts';
import { portIn } from './ports.ts';
import { readClusterAddresses, readExternalIPs, readSourceRanges } from './service-addresses.ts';
import { readAffinity, readSelector } from './service-extras.ts';
import { type ReadIngress, readIngress } from './service-ingress.ts';
import { type ReadPort, readPorts } from './service-ports.ts';

export type ServiceType = 'ClusterIP' | 'NodePort' | 'LoadBalancer' | 'ExternalName';
export type FamilyPolicy = 'SingleStack' | 'PreferDualStack' | 'RequireDualStack';
type TrafficPolicy = 'Cluster' | 'Local';

/** A Service whose fields are validated one by one, not yet together with other objects. */
export interface ReadService {
  /** `shop/web`. */
  readonly key: string;
  readonly namespace: string;
  readonly name: string;
  readonly object: KubeObject;
  readonly type: ServiceType;
  /** clusterIP is `None`. */
  readonly headless: boolean;
  readonly foreign: ForeignLabel | undefined;
  /** `app=web,tier=front`, sorted; `''`: endpoints are managed by hand or by another controller. */
  readonly selector: string;
  readonly clusterIPs: readonly string[];
  /** `spec.clusterIPs` is set, so the list is complete; otherwise `clusterIP` is only the first. */
  readonly listsAll: boolean;
  readonly ipFamilies: readonly Family[];
  readonly ipFamilyPolicy: FamilyPolicy | undefined;
  /** In the manifest's order. */
  readonly ports: readonly ReadPort[];
  readonly externalIPs: readonly string[];
  /** CIDRs in the manifest's order. */
  readonly sourceRanges: readonly string[];
  readonly ingress: readonly ReadIngress[];
  /** Addresses with `ipMode: Proxy`. */
  readonly proxiedIngress: readonly ReadIngress[];
  /** An annotation enables topology hints; kube-proxy before 1.31 uses them only then. */
  readonly asksForHints: boolean;
  readonly internalTrafficPolicy: TrafficPolicy;
  readonly externalTrafficPolicy: TrafficPolicy;
  readonly affinitySeconds: number | undefined;
  /** 0: none. */
  readonly healthCheckNodePort: number;
  /** `allocateLoadBalancerNodePorts`, by default true. */
  readonly allocateNodePorts: boolean;
  /** Mode ipvs; undefined: the profile's. */
  readonly scheduler: Scheduler | undefined;
  readonly weights: readonly WeightRule[];
}

/**
 * Reads one Service. Absent fields get the API server's defaults; values that the API server would refuse are errors.
 * @returns undefined when it cannot be used; `problems` receives the reason
 */
export function readService(object: KubeObject, problems: Problem[]): ReadService | undefined {
  const identity = identify(object, problems, 'label');
  if (!identity) return undefined;
  const { top, namespace, name, key, labels, annotations } = identity;
  const spec = mappingIn(top, 'spec') ?? emptyIn(top, 'spec');
  const type = wordIn(spec, 'type', ['ClusterIP', 'NodePort', 'LoadBalancer', 'ExternalName'], 'ClusterIP');
  const addresses = readClusterAddresses(spec, type);
  const hasNodePorts = !addresses.headless && (type === 'NodePort' || type === 'LoadBalancer');
  const service: ReadService = {
    key,
    namespace,
    name,
    object,
    type,
    ...addresses,
    foreign: foreignLabelOfService(labels),
    selector: readSelector(spec),
    ports: readPorts(spec, { hasNodePorts, mayBeEmpty: addresses.headless || type === 'ExternalName' }),
    externalIPs: readExternalIPs(spec),
    sourceRanges: readSourceRanges(spec, type),
    ...readIngress(top, type),
    asksForHints: asksForHints(annotations),
    internalTrafficPolicy: wordIn(spec, 'internalTrafficPolicy', ['Cluster', 'Local'], 'Cluster'),
    externalTrafficPolicy: readExternalPolicy(spec, type),
    affinitySeconds: readAffinity(spec),
    healthCheckNodePort: readHealthPort(spec, type),
    allocateNodePorts: flagIn(spec, 'allocateLoadBalancerNodePorts') ?? true,
    scheduler: readScheduler(annotations),
    weights: readWeights(annotations),
  };
  return top.subject.broken ? undefined : service;
}

/** Policy Local applies to external traffic only (`ExternalPolicyLocal`); without an external frontend it is a warning and means Cluster. */
function readExternalPolicy(spec: FieldSpot, type: ServiceType): TrafficPolicy {
  const policy = wordIn(spec, 'externalTrafficPolicy', ['Cluster', 'Local'], 'Cluster');
  const isOutside = type === 'NodePort' || type === 'LoadBalancer' || valueIn(spec, 'externalIPs') !== undefined;
  if (policy === 'Cluster' || isOutside) return policy;
  report(spec, ['externalTrafficPolicy'], {
    code: 'OBJECT_IGNORED',
    level: 'warning',
    message: `Cannot apply externalTrafficPolicy Local: a Service of type ${type} without externalIPs has no external traffic`,
    hint: 'Remove it, or set the type to NodePort or LoadBalancer',
  });
  return 'Cluster';
}

function readHealthPort(spec: FieldSpot, type: ServiceType): number {
  const port = portIn(spec, 'healthCheckNodePort', 0) ?? 0;
  if (port === 0 || (type === 'LoadBalancer' && spec.value['externalTrafficPolicy'] === 'Local')) return port;
  report(spec, ['healthCheckNodePort'], {
    code: 'FIELD_VALUE',
    message: 'Cannot use healthCheckNodePort here: it belongs to type LoadBalancer with externalTrafficPolicy Local',
    hint: 'Remove it, or set both',
  });
  return 0;
}
