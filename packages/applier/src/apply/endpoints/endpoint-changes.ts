import { compareText, type Service, serviceChanges, planeOf } from '@sluice/netfilter';
import type { NodeState } from '../../ports/node-state.ts';
import { serving } from './bounds.ts';
import { limits } from '../../limits.ts';
import { orReport } from '../report-failure.ts';
import type { Ports } from '../../ports/ports.ts';

/** The endpoints of one Service in two states. */
export interface EndpointChange {
  /** The same in every state of one layout and mode: `ipv4 SLU-SVC-JHDHFGEGLBNOLDNC`, in modes ipvs and nftables `10.96.0.10:80/TCP`. */
  readonly key: string;
  /** `shop/web:http`; in modes ipvs and nftables, where nothing names Services, the frontend: `10.96.0.10:80/TCP`. */
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

/** Counts the Services that keys for endpoints have changed within the last hour: an unusual number may be a sign of a stolen key. */
export class EndpointRate {
  /** When each was changed last, by `EndpointChange.key`. */
  readonly #changedMs = new Map<string, number>();

  changed(from: NodeState, to: NodeState, nowMs: number): void {
    for (const { key } of endpointChanges(from, to)) this.#changedMs.set(key, nowMs);
  }

  /** @returns their share of all Services, 0 to 1 */
  share(state: NodeState, nowMs: number): number {
    for (const [key, atMs] of this.#changedMs) if (atMs <= nowMs - limits.hourMs) this.#changedMs.delete(key);
    if (this.#changedMs.size === 0) return 0;
    return Math.min(1, this.#changedMs.size / Math.max(1, planeOf(state).read(state).count));
  }
}

/** Writes the declined endpoints. If the disk does not take them, the only cost is a failing probe after the next start. */
export const decline = (
  all: ReadonlyMap<string, string>,
  { declined, report }: Pick<Ports, 'declined' | 'report'>,
): Promise<void> => orReport('declined-not-written', { report }, () => declined.write(all));
