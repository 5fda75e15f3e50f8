import { compareText, type Service, serviceChanges } from '@sluice/netfilter';
import type { NodeState } from '../ports/node-state.ts';
import { serving } from './bounds.ts';

/** The endpoints of one Service in two states. */
export interface EndpointChange {
  /** The same in every state of one layout and mode: `ipv4 SLU-SVC-JHDHFGEGLBNOLDNC`, in mode ipvs `10.96.0.10:80/TCP`. */
  readonly key: string;
  /** `shop/web:http`; in mode ipvs, where rules do not name Services, the key. */
  readonly service: string;
  /** Each as `address:port`, sorted. */
  readonly before: readonly string[];
  readonly after: readonly string[];
}

/** The Services whose endpoints differ, sorted by key. */
export function endpointChanges(from: NodeState, to: NodeState): readonly EndpointChange[] {
  return serviceChanges(from, to)
    .flatMap((change) => {
      const [before, after] = [endpointsOf(change.before), endpointsOf(change.after)];
      return before.join() === after.join() ? [] : [{ key: change.key, service: change.name, before, after }];
    })
    .toSorted((a, b) => compareText(a.key, b.key));
}

const endpointsOf = (service: Service | undefined): readonly string[] =>
  service ? [...serving(service).keys()].toSorted(compareText) : [];

/** How many Services a message names. */
const namedMax = 5;

/** `shop/web:http (10.244.0.2:8080 removed, 10.244.0.9:8080 added), 3 more Services` */
export function printEndpointChanges(changes: readonly EndpointChange[]): string {
  const named = changes.slice(0, namedMax).map(({ service, before, after }) => {
    const removed = before.filter((one) => !after.includes(one)).map((one) => `${one} removed`);
    const added = after.filter((one) => !before.includes(one)).map((one) => `${one} added`);
    return `${service} (${shortened([...removed, ...added]).join(', ')})`;
  });
  const more = changes.length - named.length;
  return [...named, ...(more > 0 ? [`${more} more Services`] : [])].join(', ');
}

const shortened = (parts: readonly string[]): readonly string[] =>
  parts.length <= namedMax ? parts : [...parts.slice(0, namedMax), `${parts.length - namedMax} more`];
