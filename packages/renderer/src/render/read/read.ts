import { addAll, type Problem } from '@sluice/netfilter';
import type { KubeKind, KubeObject } from '../model/kube.ts';
import { Memo } from '../model/memo.ts';
import { readEndpoints } from './endpoints.ts';
import { checkFields } from './known-fields.ts';
import { roughKey } from './names.ts';
import { type ReadNode, readNode } from './node.ts';
import type { ReadService } from './read-service.ts';
import { readService } from './service.ts';
import { type ReadServiceCIDR, readServiceCIDR } from './service-cidr.ts';
import { type ReadSlice, readSlice } from './slice.ts';

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
