import { addAll, type Problem } from '@sluice/netfilter';
import type { KubeKind, KubeObject, Path } from '../model/kube.ts';
import { Memo } from '../model/memo.ts';
import { checkRoutable, familyOf } from './addresses.ts';
import type { ReadEndpoint } from './endpoint.ts';
import { type FieldSpot, mappingsIn, report, textIn } from './fields.ts';
import { checkFields } from './known-fields.ts';
import { foreignLabelOfSlice, identify, nameIn, roughKey } from './names.ts';
import { readNode, type ReadNode } from './node.ts';
import type { ReadService } from './read-service.ts';
import { type ReadServiceCIDR, readServiceCIDR } from './service-cidr.ts';
import { readService } from './service.ts';
import { readSlice, type ReadSlice, readSlicePort, type SlicePart, type SlicePort } from './slice.ts';

/**
 * Reads an Endpoints object as the slices that the API server's mirror controller would make of it: one per subset and family,
 * `notReadyAddresses` neither ready nor serving (operations: watch filters).
 * @returns undefined when it cannot be used; `problems` receives the reason
 */
function readEndpoints(object: KubeObject, problems: Problem[]): ReadSlice | undefined {
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

/** The parsed objects of one layer. */
export interface ReadObjects {
  readonly services: readonly ReadService[];
  /** EndpointSlices and Endpoints. */
  readonly slices: readonly ReadSlice[];
  readonly nodes: readonly ReadNode[];
  readonly serviceCIDRs: readonly ReadServiceCIDR[];
  /** Invalid objects: keys of Services, and whether there is a slice among them. */
  readonly unread: { readonly services: ReadonlySet<string>; readonly slices: boolean };
}

/** Reads every object; those with an error are left out, and `problems` receives their errors. */
export function readObjects(objects: readonly KubeObject[], problems: Problem[], memo = new Memo()): ReadObjects {
  const remembered = <T>(object: KubeObject, read: ObjectReader<T>): T => {
    const { value, found } = once(object, read, memo);
    addAll(problems, found);
    return value;
  };
  const services: ReadService[] = [];
  const slices: ReadSlice[] = [];
  const nodes: ReadNode[] = [];
  const serviceCIDRs: ReadServiceCIDR[] = [];
  const unread = { services: new Set<string>(), slices: false };
  const keepSlice = (slice: ReadSlice | undefined): void => {
    if (slice) slices.push(slice);
    else unread.slices = true;
  };
  const readers: Readonly<Record<KubeKind, (object: KubeObject) => void>> = {
    Service: (object) => {
      const service = remembered(object, readService);
      if (service) services.push(service);
      else unread.services.add(roughKey(object));
    },
    EndpointSlice: (object) => keepSlice(remembered(object, readSlice)),
    Endpoints: (object) => keepSlice(remembered(object, readEndpoints)),
    Node: (object) => {
      const node = remembered(object, readNode);
      if (node) nodes.push(node);
    },
    ServiceCIDR: (object) => {
      const cidr = remembered(object, readServiceCIDR);
      if (cidr) serviceCIDRs.push(cidr);
    },
  };
  for (const object of objects) readers[object.kind](object);
  return { services, slices, nodes, serviceCIDRs, unread };
}

/** One Service, parsed at most once. @returns undefined where it has an error */
export function readServiceOnce(object: KubeObject, memo: Memo): ReadService | undefined {
  return withoutError(once(object, readService, memo));
}

/** One EndpointSlice or Endpoints, parsed at most once. @returns undefined where it has an error */
export function readSliceOnce(object: KubeObject, memo: Memo): ReadSlice | undefined {
  return withoutError(once(object, object.kind === 'Endpoints' ? readEndpoints : readSlice, memo));
}

function withoutError<T>({ value, found }: ReadOne<T>): T | undefined {
  return found.some(({ level }) => level === 'error') ? undefined : value;
}

type ObjectReader<T> = (object: KubeObject, problems: Problem[]) => T;

/** A parsed object with its problems. */
interface ReadOne<T> {
  readonly value: T;
  readonly found: readonly Problem[];
}

function once<T>(object: KubeObject, read: ObjectReader<T>, memo: Memo): ReadOne<T> {
  return memo.of('read', object, [], () => readOne(object, read));
}

function readOne<T>(object: KubeObject, read: ObjectReader<T>): ReadOne<T> {
  const found: Problem[] = [];
  const value = read(object, found);
  checkFields(object, found);
  return { value, found };
}
