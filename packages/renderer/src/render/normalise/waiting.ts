import { notice, type Problem, warning } from '@sluice/netfilter';
import type { Allocation } from '../allocate/allocation.ts';
import { hasAddress } from '../layer/fill.ts';
import { proxyNameLabel } from '../read/names.ts';
import type { ReadService } from '../read/read-service.ts';
import { missingNumbers } from './numbers.ts';

/**
 * Services that wait for numbers from the API server, because Sluice does not allocate any.
 * @param isNew the API server has not seen this form of the Service; otherwise a missing health-check node port will not be added, and
 * load balancers take every node for dead
 */
export function waitingForNumbers(read: ReadService, numbers: Allocation, isNew: boolean): Problem[] {
  const missing = missingNumbers(read, numbers);
  if (missing.length === 0) return [];
  const origin = { at: read.object.origin.place(['spec']), object: `Service ${read.key}` };
  const hasRules = numbers.clusterIPs.length > 0;
  if (hasRules && !isNew && missing.length === 1 && missing[0] === 'a health-check node port') {
    const why = 'externalTrafficPolicy is Local and there is no healthCheckNodePort';
    const message = `Cannot answer the health checks of a load balancer: ${why}`;
    return [warning('FIELD_MISSING', message, 'Set spec.healthCheckNodePort', origin)];
  }
  const message = `Cannot make ${hasRules ? 'all rules' : 'rules'} yet: the API server must first allocate ${missing.join(' and ')}`;
  const hint = 'Render again with a new snapshot once the Service is in the cluster';
  return [notice('SERVICE_WAITS', message, hint, origin)];
}

/** A note for each Service that a label assigns to another proxy. */
export function ofOtherProxies(services: ReadonlyMap<string, ReadService>): Problem[] {
  return [...services.values()].flatMap((read) =>
    read.foreign !== proxyNameLabel || !hasAddress(read)
      ? []
      : [
          notice(
            'OBJECT_IGNORED',
            `Cannot make rules for this Service: the label ${proxyNameLabel} assigns it to another proxy`,
            'Remove the label if kube-proxy or Sluice should serve it',
            { at: read.object.origin.place(['metadata', 'labels', proxyNameLabel]), object: `Service ${read.key}` },
          ),
        ],
  );
}
