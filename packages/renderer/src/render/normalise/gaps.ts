import { addAll } from '@sluice/bundle';
import type { Problem } from '@sluice/bundle';
import type { Service, ServicePort } from '../model.ts';
import type { ReadService } from '../read/service.ts';
import type { ReadSlice } from '../read/slice.ts';
import { nameInSlices, portMatches } from './backing.ts';

/** How to look at gaps. */
export interface Completeness {
  /**
   * The input names pods somewhere. Where it names none at all, manifests straight from Git, that a Service has no endpoints
   * says nothing about it, and is a note instead of a warning.
   */
  readonly hasEndpoints: boolean;
  /** Every slice could be read: where one is missing for an error of its own, gaps say nothing. */
  readonly isWhole: boolean;
  /** The slices are the base's, the Services may be newer: ports that only a slice has are no mistake. */
  readonly isLayered: boolean;
}

/** Where traffic of a Service would find nothing behind it although somebody seems to have meant it to. */
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

/** Somebody can answer: ready, or still serving while terminating (operations: endpoint selection). */
function isUsable(port: ServicePort): boolean {
  return Object.values(port.families).some((family) =>
    family.endpoints.some((endpoint) => endpoint.ready || (endpoint.serving && endpoint.terminating)),
  );
}

function unmatchedPorts(read: ReadService, slices: readonly ReadSlice[]): Problem[] {
  return read.ports.flatMap((port) => {
    const name = nameInSlices(slices, port);
    const parts = slices.flatMap((slice) => slice.parts);
    if (parts.some((part) => part.ports.some((candidate) => portMatches(candidate, name, port)))) return [];
    const title =
      port.name === '' ? `${port.port}/${port.protocol}, which has no name` : `"${port.name}"/${port.protocol}`;
    const target = /^[0-9]+$/.test(port.targetPort)
      ? ''
      : `, and that its pods have a port called "${port.targetPort}"`;
    return [
      {
        code: 'ENDPOINT_WITHOUT_PORT',
        level: 'warning',
        at: read.object.origin.place(['spec', 'ports', port.index]),
        object: `Service ${read.key}`,
        message: `Cannot route port ${title}: the Service has endpoints, but none with a port of that name and protocol`,
        hint: `Check that the EndpointSlices name the port as the Service does${target}`,
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
          hint: 'Name the port as the Service does, or remove it',
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
