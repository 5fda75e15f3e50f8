import { addAll, type Problem } from '@sluice/netfilter';
import type { Service, ServicePort } from '../model/model.ts';
import type { ReadService } from '../read/read-service.ts';
import type { ReadSlice } from '../read/slice.ts';
import { matchingPorts, portsOfSlices } from './backing.ts';

/** How complete the input is. */
export interface Completeness {
  /**
   * The input has endpoints. Without any, as with manifests from Git, a Service without endpoints is a note instead of a
   * warning.
   */
  readonly hasEndpoints: boolean;
  /** Every slice is valid: otherwise a gap may come from an invalid one. */
  readonly isWhole: boolean;
  /** The slices are the base's and the Services may be newer: a port that only a slice has is not a mistake. */
  readonly isLayered: boolean;
}

/** Service ports without usable endpoints, and endpoints without a Service port, that look like mistakes. */
export function findGaps(
  read: ReadService,
  service: Service,
  slices: readonly ReadSlice[],
  input: Completeness,
): Problem[] {
  if (!input.isWhole) return [];
  const hasAddresses = slices.some((slice) => slice.parts.some((part) => part.endpoints.length > 0));
  const problems = hasAddresses ? unmatchedPorts(read, slices) : [];
  if (!input.isLayered) addAll(problems, strayPorts(read, slices));
  if (read.selector !== '' && problems.length === 0 && !service.ports.some(isUsable))
    problems.push(withoutEndpoints(read, input));
  return problems;
}

/** Whether a port has a usable endpoint: ready, or still serving while terminating (operations: endpoint selection). */
function isUsable(port: ServicePort): boolean {
  return Object.values(port.families).some((family) =>
    family.endpoints.some((endpoint) => endpoint.ready || (endpoint.serving && endpoint.terminating)),
  );
}

function unmatchedPorts(read: ReadService, slices: readonly ReadSlice[]): Problem[] {
  const ports = portsOfSlices(slices);
  return read.ports.flatMap((port) => {
    if (matchingPorts(ports, port).length > 0) return [];
    const title =
      port.name === '' ? `${port.port}/${port.protocol}, which has no name` : `"${port.name}"/${port.protocol}`;
    const target = /^[0-9]+$/.test(port.targetPort) ? '' : `, and that its pods have a port named "${port.targetPort}"`;
    return [
      {
        code: 'ENDPOINT_WITHOUT_PORT',
        level: 'warning',
        at: read.object.origin.place(['spec', 'ports', port.index]),
        object: `Service ${read.key}`,
        message: `Cannot route port ${title}: the Service has endpoints, but none with a port of that name and protocol`,
        hint: `Check that the EndpointSlices have the name of the Service's port${target}`,
      },
    ];
  });
}

function strayPorts(read: ReadService, slices: readonly ReadSlice[]): Problem[] {
  const wanted = new Set(read.ports.map((port) => `${port.name}/${port.protocol}`));
  return slices.flatMap((slice) =>
    slice.parts.flatMap((part) =>
      part.ports
        .filter((port) => part.endpoints.length > 0 && !wanted.has(`${port.name}/${port.protocol}`))
        .map((port) => ({
          code: 'OBJECT_IGNORED',
          level: 'warning',
          at: slice.object.origin.place([...part.path, 'ports', port.index]),
          object: `${slice.kind} ${slice.key}`,
          message: `Cannot use port "${port.name}"/${port.protocol}: Service ${read.key} has no port of that name and protocol`,
          hint: "Use the name of the Service's port, or remove it",
        })),
    ),
  );
}

function withoutEndpoints(read: ReadService, input: Completeness): Problem {
  return {
    code: 'SERVICE_WITHOUT_ENDPOINTS',
    level: input.hasEndpoints ? 'warning' : 'note',
    at: read.object.origin.place(['spec', 'selector']),
    object: `Service ${read.key}`,
    message:
      'Cannot route to any endpoint: the Service has a selector and no usable endpoint, so its traffic is rejected',
    hint: input.hasEndpoints
      ? 'Check that pods match the selector and are ready'
      : 'Render over a snapshot of the cluster (--base) to have its endpoints',
  };
}
