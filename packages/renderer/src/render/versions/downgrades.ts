import { addAll, type Problem, warning } from '@sluice/netfilter';
import { headlessLabel, proxyNameLabel } from '../read/names.ts';
import type { ReadEndpoint } from '../read/endpoint.ts';
import type { ReadService } from '../read/read-service.ts';
import type { ReadSlice } from '../read/slice.ts';

/** A Service with its slices, as one version of kube-proxy reads them. */
export interface ServiceWithSlices {
  readonly service: ReadService;
  /** By name. */
  readonly slices: readonly ReadSlice[];
}

/**
 * Reverts a change of kube-proxy: rules made from the result are those of the older version.
 * @returns the same object where the change makes no difference; undefined: the older version does not serve the Service
 */
export type Downgrade = (input: ServiceWithSlices, problems: Problem[]) => ServiceWithSlices | undefined;

/** Before 1.36 the watches of Services and slices shared one selector, which excluded both labels (`ProxyServer.Run`). */
export function withoutHeadlessService(input: ServiceWithSlices, problems: Problem[]): ServiceWithSlices | undefined {
  const { service } = input;
  if (service.foreign !== headlessLabel) return input;
  problems.push({
    code: 'OBJECT_IGNORED',
    level: 'note',
    at: service.object.origin.place(['metadata', 'labels', headlessLabel]),
    object: `Service ${service.key}`,
    message: `Cannot make rules for this Service: kube-proxy before 1.36 ignores Services with the label ${headlessLabel}`,
    hint: 'Remove the label if the Service should be served',
  });
  return undefined;
}

/** The effect of that selector on slices. */
export function withoutProxyNameSlices(input: ServiceWithSlices, problems: Problem[]): ServiceWithSlices {
  const slices = input.slices.filter((slice) => slice.foreign !== proxyNameLabel);
  if (slices.length === input.slices.length) return input;
  const ignored = input.slices.filter((slice) => slice.foreign === proxyNameLabel);
  addAll(problems, ignored.map(ignoredSlice));
  return { ...input, slices };
}

const ignoredSlice = (slice: ReadSlice): Problem =>
  warning(
    'OBJECT_IGNORED',
    `Cannot use these endpoints: kube-proxy before 1.36 ignores slices with the label ${proxyNameLabel}, but Service ${slice.service} has no such label`,
    'Remove the label here, or add it to the Service too',
    { at: slice.object.origin.place(['metadata', 'labels', proxyNameLabel]), object: `${slice.kind} ${slice.key}` },
  );

/** Before 1.34 the feature gate PreferSameTrafficDistribution was off (`pkg/features/kube_features.go`). */
export function withoutNodeHints(input: ServiceWithSlices): ServiceWithSlices {
  return withEndpoints(input, (endpoint) =>
    endpoint.hintNodes.length === 0 ? endpoint : { ...endpoint, hintNodes: [] },
  );
}

/** Before 1.31 the gate ServiceTrafficDistribution was off: hints needed an annotation of the Service (`canUseTopology`). */
export function withoutUnaskedHints(input: ServiceWithSlices): ServiceWithSlices {
  if (input.service.asksForHints) return input;
  return withEndpoints(input, (endpoint) =>
    endpoint.hintZones.length === 0 ? endpoint : { ...endpoint, hintZones: [] },
  );
}

/** Before 1.30 the gate LoadBalancerIPMode was off: every address of a load balancer was a VIP (`IsVIPMode`). */
export function withProxiedIngress(input: ServiceWithSlices): ServiceWithSlices {
  const { service } = input;
  if (service.proxiedIngress.length === 0) return input;
  const ingress = [...service.ingress, ...service.proxiedIngress].toSorted((a, b) => a.index - b.index);
  return { ...input, service: { ...service, ingress, proxiedIngress: [] } };
}

/** Changes endpoints; returns the same object, slices and parts where none changes. */
function withEndpoints(input: ServiceWithSlices, change: (endpoint: ReadEndpoint) => ReadEndpoint): ServiceWithSlices {
  const slices = mapped(input.slices, (slice) => {
    const parts = mapped(slice.parts, (part) => {
      const endpoints = mapped(part.endpoints, change);
      return endpoints === part.endpoints ? part : { ...part, endpoints };
    });
    return parts === slice.parts ? slice : { ...slice, parts };
  });
  return slices === input.slices ? input : { ...input, slices };
}

function mapped<T>(items: readonly T[], change: (item: T) => T): readonly T[] {
  const changed = items.map(change);
  return changed.every((item, index) => item === items[index]) ? items : changed;
}
