import type { Problem } from '@sluice/netfilter';
import type { KubeObject, Path } from '../model/kube.ts';
import { checkRoutable, familyOf } from './addresses.ts';
import type { ReadEndpoint } from './endpoint.ts';
import { report, mappingsIn, type FieldSpot, textIn } from './fields.ts';
import { foreignLabelOfSlice, identify, nameIn } from './names.ts';
import { type ReadSlice, readSlicePort, type SlicePart, type SlicePort } from './slice.ts';

/**
 * Reads an Endpoints object as the slices that the API server's mirror controller would make of it: one per subset and family,
 * `notReadyAddresses` neither ready nor serving (operations: watch filters).
 * @returns undefined when it cannot be used; `problems` receives the reason
 */
export function readEndpoints(object: KubeObject, problems: Problem[]): ReadSlice | undefined {
  const identity = identify(object, problems, 'subdomain');
  if (!identity) return undefined;
  const { top, namespace, name, key, labels } = identity;
  const parts = mappingsIn(top, 'subsets').flatMap(readSubset);
  if (top.subject.broken) return undefined;
  const foreign = foreignLabelOfSlice(labels);
  return { kind: 'Endpoints', key, namespace, name, object, service: key, foreign, mirrored: false, parts };
}

function readSubset(subset: FieldSpot): SlicePart[] {
  const ports = readSubsetPorts(subset);
  // Not ready first: an address in both lists is ready, because the last one of two equal endpoints counts.
  const endpoints = [...readAddresses(subset, 'notReadyAddresses', false), ...readAddresses(subset, 'addresses', true)];
  const path: Path = ['subsets', subset.index];
  return (['ipv4', 'ipv6'] as const).flatMap((family) => {
    const ofFamily = endpoints.filter((endpoint) => familyOf(endpoint.address) === family);
    return ofFamily.length > 0 ? [{ family, ports, endpoints: ofFamily, path }] : [];
  });
}

function readSubsetPorts(subset: FieldSpot): readonly SlicePort[] {
  const spots = mappingsIn(subset, 'ports');
  const ports: SlicePort[] = [];
  for (const spot of spots) {
    const port = readSlicePort(spot);
    if (!port) continue;
    if (spots.length > 1 && port.name === '') report(spot, ['name'], withoutName);
    ports.push(port);
  }
  return ports;
}

function readAddresses(subset: FieldSpot, key: string, ready: boolean): readonly ReadEndpoint[] {
  const endpoints: ReadEndpoint[] = [];
  for (const spot of mappingsIn(subset, key)) {
    const text = textIn(spot, 'ip');
    if (text === undefined && !spot.subject.broken) report(spot, ['ip'], withoutAddress);
    const address = text === undefined ? undefined : checkRoutable(spot, ['ip'], text);
    const nodeName = nameIn(spot, 'nodeName', 'subdomain');
    if (address === undefined) continue;
    endpoints.push({
      address,
      nodeName,
      zone: undefined,
      ready,
      serving: ready,
      terminating: false,
      hintZones: [],
      hintNodes: [],
    });
  }
  return endpoints;
}

const withoutName = {
  code: 'FIELD_MISSING',
  message: 'Cannot distinguish the ports of a subset: one has no name',
  hint: 'Name every port like its Service port',
} as const;
const withoutAddress = {
  code: 'FIELD_MISSING',
  message: 'Cannot route to an endpoint without an ip',
  hint: 'Write its address, or remove the entry',
} as const;
