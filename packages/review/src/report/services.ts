import { addressOfEndpoint, appendTo, compareText } from '@sluice/netfilter';
import { type AddressFacts, type EndpointFacts, numberAndProtocolOf, type PortFacts } from '../facts/facts.ts';
import type { ServiceEntries, ServiceEntry } from '../facts/service-entries.ts';
import type { Severity } from './severity.ts';

/** The change of a Service, a frontend, an endpoint or a node from the old bundle to the new one. */
export type ChangeStatus = 'same' | 'added' | 'removed' | 'changed';

/** A Service in both families and all profiles. */
export interface ReportService {
  readonly service: string;
  readonly fate: ChangeStatus;
  /** The worst effect of the change on it; absent: none. */
  readonly severity?: Severity;
  /** By kind, then in byte order. */
  readonly frontends: readonly ReportFrontend[];
  /** By port, then in byte order of text and node. */
  readonly endpoints: readonly ReportEndpoint[];
}

export interface ReportFrontend {
  readonly kind: AddressFacts['kind'] | 'node-port';
  /** `10.96.0.10:80`; of a node port `30080/TCP`. */
  readonly text: string;
  readonly fate: Exclude<ChangeStatus, 'changed'>;
}

export interface ReportEndpoint {
  readonly text: string;
  /** Number and protocol of the Service's port, `80/TCP`. */
  readonly port: string;
  readonly node?: string;
  readonly zone?: string;
  readonly fate: Exclude<ChangeStatus, 'changed'>;
  /**
   * The shares of the new connections of its port and family, 0 to 1, by weight over all endpoints; absent: not an endpoint there. On a
   * node that uses only some of the endpoints, the share is another: flows have it.
   */
  readonly before?: number;
  readonly after?: number;
}

/** The Services of both bundles, by name. */
export function servicesOf(
  old: ServiceEntries,
  updated: ServiceEntries,
  changed: ReadonlySet<string>,
): readonly ReportService[] {
  const [before, after] = [byName(old), byName(updated)];
  const names = [...new Set([...before.keys(), ...after.keys()])].toSorted(compareText);
  return names.map((service) => {
    const [was, is] = [before.get(service), after.get(service)];
    const fate: ChangeStatus = !was ? 'added' : !is ? 'removed' : changed.has(service) ? 'changed' : 'same';
    return { service, fate, frontends: frontendsOf(was, is), endpoints: endpointsOf(was, is) };
  });
}

type Side = readonly ServiceEntry[] | undefined;

function byName(entries: ServiceEntries): ReadonlyMap<string, readonly ServiceEntry[]> {
  const found = new Map<string, ServiceEntry[]>();
  for (const entry of [...entries.values()].flat()) appendTo(found, entry.facts.service, entry);
  return found;
}

const statusOf = (wasThere: boolean, isThere: boolean): Exclude<ChangeStatus, 'changed'> =>
  !wasThere ? 'added' : isThere ? 'same' : 'removed';

const kinds = [
  'load-balancer',
  'external',
  'node-port',
  'cluster',
] as const satisfies readonly ReportFrontend['kind'][];

function frontendsOf(was: Side, is: Side): readonly ReportFrontend[] {
  const [old, updated] = [frontendsIn(was), frontendsIn(is)];
  return [...new Map([...old, ...updated])]
    .map(([key, frontend]) => ({ ...frontend, fate: statusOf(old.has(key), updated.has(key)) }))
    .toSorted((a, b) => kinds.indexOf(a.kind) - kinds.indexOf(b.kind) || compareText(a.text, b.text));
}

function frontendsIn(side: Side): ReadonlyMap<string, Omit<ReportFrontend, 'fate'>> {
  const found = new Map<string, Omit<ReportFrontend, 'fate'>>();
  const keep = (frontend: Omit<ReportFrontend, 'fate'>): void =>
    void found.set(`${frontend.kind} ${frontend.text}`, frontend);
  for (const port of portsIn(side)) {
    for (const { kind, text } of port.addresses) keep({ kind, text });
    if (port.nodePort !== 0) keep({ kind: 'node-port', text: `${port.nodePort}/${port.protocol.toUpperCase()}` });
  }
  return found;
}

const portsIn = (side: Side): readonly PortFacts[] => (side ?? []).flatMap(({ facts }) => facts.ports);

type PlacedEndpoint = EndpointFacts & { readonly port: string; readonly share: number };

function endpointsOf(was: Side, is: Side): readonly ReportEndpoint[] {
  const [old, updated] = [endpointsIn(was), endpointsIn(is)];
  const keys = [...new Set([...old.keys(), ...updated.keys()])];
  return keys.toSorted(compareText).map((key) => {
    const [before, after] = [old.get(key), updated.get(key)];
    const { text, port, node, zone } = (after ?? before)!;
    return {
      text,
      port,
      ...(node === undefined ? {} : { node }),
      ...(zone === undefined ? {} : { zone }),
      fate: statusOf(before !== undefined, after !== undefined),
      ...(before === undefined ? {} : { before: before.share }),
      ...(after === undefined ? {} : { after: after.share }),
    };
  });
}

/** By port, text and node. The families of a port share its connections each by themselves. */
function endpointsIn(side: Side): ReadonlyMap<string, PlacedEndpoint> {
  const found = new Map<string, PlacedEndpoint>();
  for (const port of portsIn(side)) {
    const number = numberAndProtocolOf(port);
    const sums = new Map<boolean, number>();
    for (const endpoint of port.endpoints) {
      const family = isIPv6(endpoint);
      sums.set(family, (sums.get(family) ?? 0) + weightOf(endpoint));
    }
    for (const endpoint of port.endpoints) {
      const sum = sums.get(isIPv6(endpoint))!;
      const share = sum === 0 ? 0 : weightOf(endpoint) / sum;
      found.set(`${number} ${endpoint.text} ${endpoint.node}`, { ...endpoint, port: number, share });
    }
  }
  return found;
}

const isIPv6 = ({ text }: EndpointFacts): boolean => addressOfEndpoint(text).includes(':');

/** The first weight where frontends disagree. */
const weightOf = ({ weight = '1' }: EndpointFacts): number => Number.parseInt(weight, 10);
