import type { TrafficPolicy, ServiceType } from '../model/model.ts';
import type { ReadService } from './read-service.ts';
import type { Problem } from '@sluice/netfilter';
import type { KubeObject } from '../model/kube.ts';
import { asksForHints, readScheduler, readTableSize, readWeights } from './annotations.ts';
import { report, emptyIn, flagIn, mappingIn, type FieldSpot, valueIn, wordIn } from './fields.ts';
import { foreignLabelOfService, identify } from './names.ts';
import { portIn } from './ports.ts';
import { readClusterAddresses, readExternalIPs, readSourceRanges } from './service-addresses.ts';
import { readAffinity, readSelector } from './service-extras.ts';
import { readIngress } from './service-ingress.ts';
import { readPorts } from './service-ports.ts';

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
    maglevSize: readTableSize(annotations),
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
