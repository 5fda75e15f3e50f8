import { compareText, type Problem } from '@sluice/netfilter';
import type { KubeObject } from '../model/kube.ts';
import type { ServiceType, TrafficPolicy } from '../model/model.ts';
import { asksForHints, readScheduler, readTableSize, readWeights } from './annotations.ts';
import {
  emptyIn,
  type FieldSpot,
  flagIn,
  mappingIn,
  numberIn,
  pathText,
  report,
  textIn,
  valueIn,
  wordIn,
} from './fields.ts';
import { foreignLabelOfService, identify } from './names.ts';
import { portIn } from './ports.ts';
import type { ReadService } from './read-service.ts';
import { readClusterAddresses, readExternalIPs, readSourceRanges } from './service-addresses.ts';
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

/** A selector as one text, independent of the order of its labels, for comparison. */
function readSelector(spec: FieldSpot): string {
  const selector = mappingIn(spec, 'selector');
  if (!selector) return '';
  const keys = Object.keys(selector.value).toSorted(compareText);
  return keys.map((key) => `${key}=${textIn(selector, key) ?? ''}`).join(',');
}

/** Three hours: `DefaultClientIPServiceAffinitySeconds`. */
const defaultAffinitySeconds = 10_800;
/** A day: `MaxClientIPServiceAffinitySeconds`. */
const affinitySecondsMax = 86_400;

/** The time-out of sessionAffinity ClientIP in seconds; undefined: no affinity. */
function readAffinity(spec: FieldSpot): number | undefined {
  const affinity = wordIn(spec, 'sessionAffinity', ['None', 'ClientIP'], 'None');
  const config = mappingIn(spec, 'sessionAffinityConfig');
  if (affinity === 'None') {
    if (config) {
      report(spec, ['sessionAffinityConfig'], {
        code: 'FIELD_VALUE',
        message: 'Cannot use sessionAffinityConfig: sessionAffinity is None',
        hint: 'Set sessionAffinity to ClientIP, or remove sessionAffinityConfig',
      });
    }
    return undefined;
  }
  const clientIP = config && mappingIn(config, 'clientIP');
  const seconds = clientIP && numberIn(clientIP, 'timeoutSeconds');
  if (!clientIP || seconds === undefined) return defaultAffinitySeconds;
  if (Number.isInteger(seconds) && seconds >= 1 && seconds <= affinitySecondsMax) return seconds;
  report(clientIP, ['timeoutSeconds'], {
    code: 'FIELD_VALUE',
    message: `Cannot use ${seconds} as ${pathText(clientIP, ['timeoutSeconds'])}: it is not a valid time-out (1–${affinitySecondsMax} s)`,
    hint: `Write whole seconds from 1 to ${affinitySecondsMax}`,
  });
  return undefined;
}
