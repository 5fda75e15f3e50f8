import { neighbourhoodOf, withEmbedded } from '@sluice/netfilter';
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

/** Services and slices of a cluster, found by the Service's key. It keeps the objects, which are read again where the memo forgot them. */
export class ClusterIndex {
  /** Services with rules, by `namespace/name`. */
  readonly #services = new Map<string, KubeObject>();
  /** EndpointSlices and Endpoints by the key of their Service, then by kind and key. */
  readonly #slices = new Map<string, Map<string, KubeObject>>();
  /** Of all Services. */
  readonly #keys = new Set<string>();
  /** Whether there is a Node: otherwise nodes are those that endpoints name. */
  hasNodes = false;
  /** The Service with rules of each address and node port; `shared`: of several, now or before. */
  readonly #owners = new Map<string | number, string>();
  /** ClusterIPs, each with the number of Services with rules that have it. */
  readonly #clusterIPs = new Map<string, number>();
  /** Of endpoints, also of those that left: `10.244.1.`. */
  readonly #neighbourhoods = new Set<string>();

  readonly #memo: Memo;

  private constructor(memo: Memo) {
    this.#memo = memo;
  }

  /**
   * @param objects all of a cluster
   * @param memo has the parsed objects
   * @returns undefined where a Service or its endpoints have an error, or there are two of one key
   */
  static of(objects: Iterable<KubeObject>, memo: Memo): ClusterIndex | undefined {
    const index = new ClusterIndex(memo);
    for (const object of objects) if (!index.#add(object)) return undefined;
    return index;
  }

  /** A Service with rules. */
  service(key: string): IndexedService | undefined {
    const object = this.#services.get(key);
    const service = object && readServiceOnce(object, this.#memo);
    return service && { service, numbers: numbersOf(service, this.#memo) };
  }

  /** The slices and Endpoints of a Service. */
  slicesOf(key: string): readonly ReadSlice[] {
    return [...(this.#slices.get(key)?.values() ?? [])].flatMap((object) => readSliceOnce(object, this.#memo) ?? []);
  }

  /** Whether a Service with rules has a ClusterIP to which packets to an address lead: no endpoint may have it. */
  hasClusterIP(address: string): boolean {
    return withEmbedded(address).some((one) => this.#clusterIPs.has(one));
  }

  /**
   * Replaces EndpointSlices.
   * @returns false where two have one key: then the index must not be used any more
   */
  replaceSlices({ removed, added }: ListDifference<ReadSlice>): boolean {
    for (const slice of removed) {
      const ofService = this.#slices.get(slice.service);
      ofService?.delete(keyOf(slice));
      if (ofService?.size === 0) this.#slices.delete(slice.service);
    }
    return added.every((slice) => this.#addSlice(slice));
  }

  /**
   * Replaces Services. To be called when their slices are replaced.
   * @returns false where one may have an effect on others: it has a key, an address or a node port of another one, or a new ClusterIP near
   * an endpoint. Then the index must not be used any more
   */
  replaceServices({ removed, added }: ListDifference<ReadService>): boolean {
    const known = new Set(removed.flatMap((service) => numbersOf(service, this.#memo).clusterIPs));
    for (const { key } of removed) this.#removeService(key);
    return added.every((service) => {
      if (!this.#addService(service)) return false;
      const own = this.service(service.key);
      return (
        own === undefined ||
        (claimsOf(own).every((claim) => this.#owners.get(claim) === service.key) &&
          own.numbers.clusterIPs.every(
            (address) => known.has(address) || !this.#neighbourhoods.has(neighbourhoodOf(address)),
          ))
      );
    });
  }

  /** @returns false where the object is invalid, or another one has its key */
  #add(object: KubeObject): boolean {
    if (object.kind === 'Service') return this.#addService(readServiceOnce(object, this.#memo));
    if (object.kind === 'EndpointSlice' || object.kind === 'Endpoints')
      return this.#addSlice(readSliceOnce(object, this.#memo));
    this.hasNodes ||= object.kind === 'Node';
    return true;
  }

  #addService(service: ReadService | undefined): boolean {
    if (service === undefined || this.#keys.has(service.key)) return false;
    this.#keys.add(service.key);
    if (!hasRules(service)) return true;
    this.#services.set(service.key, service.object);
    const own = { service, numbers: numbersOf(service, this.#memo) };
    this.#count(own, 1);
    for (const claim of claimsOf(own))
      this.#owners.set(claim, (this.#owners.get(claim) ?? service.key) === service.key ? service.key : shared);
    return true;
  }

  #removeService(key: string): void {
    const own = this.service(key);
    this.#services.delete(key);
    this.#keys.delete(key);
    if (own) this.#count(own, -1);
    // What was shared stays so: the next Service there is rendered with all others.
    for (const claim of own ? claimsOf(own) : []) if (this.#owners.get(claim) === key) this.#owners.delete(claim);
  }

  /** Counts its ClusterIPs. */
  #count({ numbers }: IndexedService, by: 1 | -1): void {
    for (const address of numbers.clusterIPs) {
      const left = (this.#clusterIPs.get(address) ?? 0) + by;
      if (left > 0) this.#clusterIPs.set(address, left);
      else this.#clusterIPs.delete(address);
    }
  }

  #addSlice(slice: ReadSlice | undefined): boolean {
    if (slice === undefined) return false;
    const ofService = this.#slices.get(slice.service) ?? new Map<string, KubeObject>();
    this.#slices.set(slice.service, ofService);
    const key = keyOf(slice);
    if (ofService.has(key)) return false;
    ofService.set(key, slice.object);
    for (const { endpoints } of slice.parts)
      for (const { address } of endpoints)
        for (const one of withEmbedded(address)) this.#neighbourhoods.add(neighbourhoodOf(one));
    return true;
  }
}

/** No key of a Service. */
const shared = '*';

/** The addresses and node ports that no other Service should have. */
const claimsOf = ({ service, numbers }: IndexedService): readonly (string | number)[] => [
  ...numbers.clusterIPs,
  ...service.externalIPs,
  ...service.ingress.map(({ address }) => address),
  ...Object.values(numbers.nodePorts),
  ...(numbers.healthCheckNodePort === undefined ? [] : [numbers.healthCheckNodePort]),
];

function keyOf({ kind, key }: ReadSlice): string {
  return `${kind} ${key}`;
}
