import { appendTo, compareText, type Family, printEndpoint, type Problem, warning } from '@sluice/netfilter';
import type { LayeredObjects } from '../layer/layer.ts';
import type { Endpoint } from '../model/model.ts';
import type { ReadEndpoint } from '../read/endpoint.ts';
import { headlessLabel } from '../read/names.ts';
import type { ReadPort } from '../read/service-ports.ts';
import type { ReadSlice, SlicePart, SlicePort } from '../read/slice.ts';
import { hasRules } from './numbers.ts';
import { isTooMany } from './service-size.ts';

/**
 * The slices of each Service by name, in byte order. Endpoints count only for Services without EndpointSlices: otherwise the slices
 * mirror the Endpoints or replace them, and kube-proxy reads only slices.
 * @param problems receives objects that every version of kube-proxy ignores: slices with the label of headless Services, Endpoints with
 * addresses that the slices lack
 */
export function backingOf(
  layered: Pick<LayeredObjects, 'services' | 'slices'>,
  problems: Problem[],
): ReadonlyMap<string, readonly ReadSlice[]> {
  const backing = new Map<string, ReadSlice[]>();
  for (const slice of layered.slices) {
    const service = layered.services.get(slice.service);
    if (slice.foreign === headlessLabel) {
      if (service && hasRules(service)) problems.push(headlessSlice(slice));
      continue;
    }
    appendTo(backing, slice.service, slice);
  }
  for (const [service, unsorted] of backing) {
    const all = unsorted.toSorted((a, b) => compareText(a.name, b.name));
    const slices = all.filter((slice) => slice.kind === 'EndpointSlice');
    if (slices.length > 0 && slices.length < all.length && !isTooMany(all)) {
      for (const endpoints of all) if (endpoints.kind === 'Endpoints') compareWithSlices(endpoints, slices, problems);
    }
    backing.set(service, slices.length > 0 ? slices : all);
  }
  return backing;
}

/** The ports of slices, with their endpoints, by name and protocol. */
export type SlicePorts = ReadonlyMap<string, readonly { readonly part: SlicePart; readonly port: SlicePort }[]>;

const keyOf = (name: string, { protocol }: Pick<ReadPort, 'protocol'>): string => `${name}/${protocol}`;

/** @param slices by name */
export function portsOfSlices(slices: readonly ReadSlice[]): SlicePorts {
  const ports = new Map<string, { readonly part: SlicePart; readonly port: SlicePort }[]>();
  for (const { parts } of slices)
    for (const part of parts) for (const port of part.ports) appendTo(ports, keyOf(port.name, port), { part, port });
  return ports;
}

/**
 * The ports of slices that serve a Service's port: those of its name and protocol, as kube-proxy matches them, else those of its former
 * name.
 */
export function matchingPorts(ports: SlicePorts, port: ReadPort): NonNullable<ReturnType<SlicePorts['get']>> {
  const { name, formerName } = port;
  return (
    ports.get(keyOf(name, port)) ?? (formerName === undefined ? undefined : ports.get(keyOf(formerName, port))) ?? []
  );
}

/**
 * The endpoints of one Service port in one family, over all slices. Of two with one `ip:port` the last one counts unless it is
 * terminating (operations: EndpointSlice).
 * @param ports of slices by name, so that the last one does not depend on the input's order
 */
export function endpointsOf(ports: SlicePorts, port: ReadPort, family: Family): readonly Endpoint[] {
  const found = new Map<string, Endpoint>();
  for (const { part, port: slicePort } of matchingPorts(ports, port))
    if (part.family === family) addEndpoints(found, part, slicePort.port);
  return [...found.values()].toSorted((a, b) => compareText(a.text, b.text));
}

function addEndpoints(found: Map<string, Endpoint>, part: SlicePart, port: number): void {
  for (const read of part.endpoints) {
    const text = printEndpoint(read.address, port);
    if (read.terminating && found.has(text)) continue;
    found.set(text, makeEndpoint(read, port, text));
  }
}

function makeEndpoint(read: ReadEndpoint, port: number, text: string): Endpoint {
  const { address, nodeName, zone, ready, serving, terminating, hintZones, hintNodes } = read;
  // The usual case without spreads: there may be 50,000 endpoints.
  if (nodeName !== undefined && zone !== undefined)
    return { address, port, text, nodeName, zone, ready, serving, terminating, hintZones, hintNodes };
  const endpoint: Endpoint = { address, port, text, ready, serving, terminating, hintZones, hintNodes };
  if (nodeName !== undefined) return { ...endpoint, nodeName };
  return zone === undefined ? endpoint : { ...endpoint, zone };
}

const headlessSlice = (slice: ReadSlice): Problem =>
  warning(
    'OBJECT_IGNORED',
    `Cannot use these endpoints: kube-proxy ignores slices with the label ${headlessLabel}, but Service ${slice.service} has a ClusterIP`,
    'Remove the label here; the endpoint controller sets it on slices of headless Services',
    { at: slice.object.origin.place(['metadata', 'labels', headlessLabel]), object: `${slice.kind} ${slice.key}` },
  );

/** Reports Endpoints with an address that no slice has: it is ignored, possibly against the author's intent. */
function compareWithSlices(endpoints: ReadSlice, slices: readonly ReadSlice[], problems: Problem[]): void {
  const known = new Set(slices.flatMap(addressesOf));
  const unknown = addressesOf(endpoints).filter((address) => !known.has(address));
  if (unknown.length === 0) return;
  problems.push({
    code: 'OBJECT_IGNORED',
    level: 'note',
    at: endpoints.object.origin.place([]),
    object: `Endpoints ${endpoints.key}`,
    message: `Cannot use both Endpoints and EndpointSlices of Service ${endpoints.service}: the slices take precedence, and they lack ${unknown[0]}`,
    hint: 'Remove the Endpoints, or the slices if the Endpoints are right',
  });
}

function addressesOf(slice: ReadSlice): string[] {
  return slice.parts.flatMap((part) =>
    part.ports.flatMap((port) => part.endpoints.map((endpoint) => printEndpoint(endpoint.address, port.port))),
  );
}
