import { addAll, type Problem } from '@sluice/netfilter';
import type { KubeKind, KubeObject } from '../kube.ts';
import { Memo } from '../memo.ts';
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
    const { value, found } = memo.of('read', object, [], () => readOne(object, read));
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

type ObjectReader<T> = (object: KubeObject, problems: Problem[]) => T;

function readOne<T>(
  object: KubeObject,
  read: ObjectReader<T>,
): { readonly value: T; readonly found: readonly Problem[] } {
  const found: Problem[] = [];
  const value = read(object, found);
  checkFields(object, found);
  return { value, found };
}
