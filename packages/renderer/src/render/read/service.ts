import type { Family, Problem, Scheduler } from '@sluice/bundle';
import type { KubeObject } from '../kube.ts';
import type { WeightRule } from '../model.ts';
import { asksForHints, readScheduler, readWeights } from './annotations.ts';
import { complain, emptyIn, flagIn, mappingIn, type Spot, valueIn, wordIn } from './fields.ts';
import { type ForeignLabel, foreignLabelOfService, identify } from './names.ts';
import { portIn } from './ports.ts';
import { readClusterAddresses, readExternalIPs, readSourceRanges } from './service-addresses.ts';
import { readAffinity, readSelector } from './service-extras.ts';
import { type ReadIngress, readIngress } from './service-ingress.ts';
import { type ReadPort, readPorts } from './service-ports.ts';

export type ServiceType = 'ClusterIP' | 'NodePort' | 'LoadBalancer' | 'ExternalName';
export type FamilyPolicy = 'SingleStack' | 'PreferDualStack' | 'RequireDualStack';
type TrafficPolicy = 'Cluster' | 'Local';

/** A Service whose fields are checked one by one; what several objects mean together nobody has looked at yet. */
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
  /** `app=web,tier=front`, sorted; `''`: somebody else makes the endpoints. */
  readonly selector: string;
  readonly clusterIPs: readonly string[];
  /** `spec.clusterIPs` is written, so it is the whole list; else `clusterIP` is only the first. */
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
  /** An annotation asks for topology hints; kube-proxy before 1.31 follows them only then. */
  readonly asksForHints: boolean;
  readonly internalTrafficPolicy: TrafficPolicy;
  readonly externalTrafficPolicy: TrafficPolicy;
  readonly affinitySeconds: number | undefined;
  /** 0: none. */
  readonly healthCheckNodePort: number;
  /** `allocateLoadBalancerNodePorts`, true where nothing is written. */
  readonly allocateNodePorts: boolean;
  /** Of mode ipvs; undefined: the profile's. */
  readonly scheduler: Scheduler | undefined;
  readonly weights: readonly WeightRule[];
}

/**
 * Reads one Service. What is left out gets the API server's default; what the API server would refuse is an error.
 * @returns undefined when it cannot be used; `problems` says why
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

/** Local means something only where traffic comes from outside (`ExternalPolicyLocal`); elsewhere it is said and taken as Cluster. */
function readExternalPolicy(spec: Spot, type: ServiceType): TrafficPolicy {
  const policy = wordIn(spec, 'externalTrafficPolicy', ['Cluster', 'Local'], 'Cluster');
  const isOutside = type === 'NodePort' || type === 'LoadBalancer' || valueIn(spec, 'externalIPs') !== undefined;
  if (policy === 'Cluster' || isOutside) return policy;
  complain(spec, ['externalTrafficPolicy'], {
    code: 'OBJECT_IGNORED',
    level: 'warning',
    message: `Cannot follow externalTrafficPolicy Local: a Service of type ${type} without externalIPs has no outside`,
    hint: 'Leave it out, or make the type NodePort or LoadBalancer',
  });
  return 'Cluster';
}

function readHealthPort(spec: Spot, type: ServiceType): number {
  const port = portIn(spec, 'healthCheckNodePort', 0) ?? 0;
  if (port === 0 || (type === 'LoadBalancer' && spec.value['externalTrafficPolicy'] === 'Local')) return port;
  complain(spec, ['healthCheckNodePort'], {
    code: 'FIELD_VALUE',
    message: 'Cannot use healthCheckNodePort here: it belongs to type LoadBalancer with externalTrafficPolicy Local',
    hint: 'Leave it out, or set both',
  });
  return 0;
}
