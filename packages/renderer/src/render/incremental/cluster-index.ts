import type { Allocation } from '../allocate/allocation.ts';
import type { KubeObject } from '../model/kube.ts';
import type { Memo } from '../model/memo.ts';
import { hasRules, numbersOf } from '../normalise/numbers.ts';
import { readServiceOnce, readSliceOnce } from '../read/read.ts';
import type { ReadService } from '../read/read-service.ts';
import type { ReadSlice } from '../read/slice.ts';

/** The values that only one of two lists has. */
export interface ListDifference<T> {
  readonly removed: readonly T[];
  readonly added: readonly T[];
}

/** A Service with rules, and its numbers. */
interface IndexedService {
  readonly service: ReadService;
  readonly numbers: Allocation;
}

/** Services and slices of a cluster, found by the Service's key. */
export class ClusterIndex {
  /** Services with rules, by `namespace/name`. */
  readonly #services = new Map<string, IndexedService>();
  /** EndpointSlices and Endpoints by the key of their Service, then by kind and key. */
  readonly #slices = new Map<string, Map<string, ReadSlice>>();
  /** Of all Services. */
  readonly #keys = new Set<string>();
  /** Whether there is a Node: otherwise nodes are those that endpoints name. */
  hasNodes = false;
  /** ClusterIPs of Services with rules: no endpoint may have one. */
  readonly #clusterIPs = new Set<string>();

  private constructor() {}

  /**
   * @param objects all of a cluster
   * @param memo has the parsed objects
   * @returns undefined where a Service or its endpoints have an error, or there are two of one key
   */
  static of(objects: Iterable<KubeObject>, memo: Memo): ClusterIndex | undefined {
    const index = new ClusterIndex();
    for (const object of objects) if (!index.#add(object, memo)) return undefined;
    return index;
  }

  /** A Service with rules. */
  service(key: string): IndexedService | undefined {
    return this.#services.get(key);
  }

  /** The slices and Endpoints of a Service. */
  slicesOf(key: string): readonly ReadSlice[] {
    return [...(this.#slices.get(key)?.values() ?? [])];
  }

  isClusterIP(address: string): boolean {
    return this.#clusterIPs.has(address);
  }

  /**
   * Replaces EndpointSlices.
   * @returns false where two have one key: then the index must not be used any more
   */
  replaceSlices({ removed, added }: ListDifference<ReadSlice>): boolean {
    for (const slice of removed) this.#slices.get(slice.service)?.delete(keyOf(slice));
    return added.every((slice) => this.#addSlice(slice));
  }

  /** @returns false where the object is invalid, or another one has its key */
  #add(object: KubeObject, memo: Memo): boolean {
    if (object.kind === 'Service') return this.#addService(readServiceOnce(object, memo), memo);
    if (object.kind === 'EndpointSlice' || object.kind === 'Endpoints')
      return this.#addSlice(readSliceOnce(object, memo));
    this.hasNodes ||= object.kind === 'Node';
    return true;
  }

  #addService(service: ReadService | undefined, memo: Memo): boolean {
    if (service === undefined || this.#keys.has(service.key)) return false;
    this.#keys.add(service.key);
    if (!hasRules(service)) return true;
    const numbers = numbersOf(service, memo);
    this.#services.set(service.key, { service, numbers });
    for (const address of numbers.clusterIPs) this.#clusterIPs.add(address);
    return true;
  }

  #addSlice(slice: ReadSlice | undefined): boolean {
    if (slice === undefined) return false;
    const ofService = this.#slices.get(slice.service) ?? new Map<string, ReadSlice>();
    this.#slices.set(slice.service, ofService);
    const key = keyOf(slice);
    if (ofService.has(key)) return false;
    ofService.set(key, slice);
    return true;
  }
}

function keyOf({ kind, key }: ReadSlice): string {
  return `${kind} ${key}`;
}
