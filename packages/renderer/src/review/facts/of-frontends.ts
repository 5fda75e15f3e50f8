import {
  anyAddress,
  compareText,
  type Family,
  nftFamily,
  type NftElement,
  printEndpoint,
  printNftEndpoint,
  readFrontendKey,
  readNftLine,
  type TransportProtocol,
} from '@sluice/netfilter';
import {
  commentBlockOf,
  type HeaderNotes,
  notesFor,
  notesOf,
  placeOfEndpoint,
  type PortNote,
} from '../bundle/header.ts';
import { virtualLines } from '../bundle/lines.ts';
import type { AddressFacts, PortFacts, ServiceFacts } from './facts.ts';
import { portKey } from './port-key.ts';

/** A frontend over all nodes. */
interface FrontendFacts {
  readonly protocol: TransportProtocol;
  readonly address: string;
  readonly port: number;
  readonly endpoints: Set<string>;
  readonly ranges: Set<string>;
  readonly affinity: Set<number>;
  isNear: boolean;
}

/**
 * The facts of one Service of mode nftables in one family, over all nodes: addresses, endpoints, affinity, source ranges and the external
 * policy are those of its elements; the comment block gives the rest.
 */
export function nftFacts(service: string, family: Family, text: string): ServiceFacts {
  const notes = notesFor(family, notesOf(commentBlockOf(text)));
  const elements = elementsIn(text, family);
  const frontends = frontendsIn(elements);
  const clusterIPs = new Set(elements.flatMap((one) => (one.kind === 'cluster' ? [one.address] : [])));
  const health = elements.flatMap((one) => (one.kind === 'health' ? [Number(one.port)] : []));
  const byPort = Map.groupBy(frontends, (frontend) => keyOfFrontend(service, family, frontend, notes));
  const declared = notes.ports.map((port) => [keyOf(service, port.name, port.port, port.protocol), port] as const);
  const noteOf = new Map(declared);
  const ports = [...new Set([...noteOf.keys(), ...byPort.keys()])]
    .toSorted(compareText)
    .map((key) => portFacts({ key, family, notes, clusterIPs, health }, byPort.get(key) ?? [], noteOf.get(key)));
  return { service, family, ...(notes.type === undefined ? {} : { type: notes.type }), ports };
}

function elementsIn(text: string, family: Family): readonly NftElement[] {
  return virtualLines(text).flatMap((line) => {
    if (nftFamily(line) !== family) return [];
    const read = readNftLine(line);
    return 'error' in read ? [] : read.elements;
  });
}

function frontendsIn(elements: readonly NftElement[]): readonly FrontendFacts[] {
  const found = new Map<string, FrontendFacts>();
  for (const element of elements) {
    if (!('key' in element)) continue;
    const fresh = { endpoints: new Set<string>(), ranges: new Set<string>(), affinity: new Set<number>() };
    const known = found.get(element.key) ?? { ...readFrontendKey(element.key), ...fresh, isNear: false };
    found.set(element.key, known);
    if (element.kind === 'near') known.isNear = true;
    if (element.kind === 'endpoint' || element.kind === 'local')
      known.endpoints.add(printNftEndpoint(element.endpoint));
    if (element.kind === 'allow') known.ranges.add(withPrefix(element.range));
    if (element.kind === 'svc' && element.affinitySeconds !== undefined) known.affinity.add(element.affinitySeconds);
  }
  return [...found.values()];
}

/** Elements have no prefix of a whole address. */
function withPrefix(range: string): string {
  if (range.includes('/')) return range;
  return `${range}/${range.includes(':') ? 128 : 32}`;
}

const keyOf = (service: string, name: string, port: number, protocol: TransportProtocol): string =>
  portKey(`${service}${name === '' ? '' : `:${name}`}`, port, protocol);

/** The port that a frontend belongs to: frontends have no names. */
function keyOfFrontend(
  service: string,
  family: Family,
  { address, port, protocol }: FrontendFacts,
  { ports }: HeaderNotes,
): string {
  const isNodePort = address === anyAddress[family];
  const note = ports.find((one) => one.protocol === protocol && (isNodePort ? one.nodePort : one.port) === port);
  return keyOf(service, note?.name ?? '', note?.port ?? port, protocol);
}

/** What all ports of a Service have together. */
interface ServiceContext {
  readonly key: string;
  readonly family: Family;
  readonly notes: HeaderNotes;
  readonly clusterIPs: ReadonlySet<string>;
  readonly health: readonly number[];
}

function portFacts(
  { key, family, notes, clusterIPs, health }: ServiceContext,
  frontends: readonly FrontendFacts[],
  note: PortNote | undefined,
): PortFacts {
  const named = frontends.filter(({ address }) => address !== anyAddress[family]);
  const outside = frontends.filter(({ address }) => !clusterIPs.has(address));
  const affinity = frontends.flatMap((one) => [...one.affinity]);
  const restricted = named.filter(({ ranges }) => ranges.size > 0);
  const kindOf = ({ address, ranges }: FrontendFacts): AddressFacts['kind'] => {
    if (clusterIPs.has(address)) return 'cluster';
    return ranges.size > 0 || notes.loadBalancerAddresses.includes(address) ? 'load-balancer' : 'external';
  };
  const endpoints = [...new Set(frontends.flatMap((one) => [...one.endpoints]))].toSorted(compareText);
  return {
    key,
    protocol: frontends[0]?.protocol ?? note?.protocol ?? 'tcp',
    addresses: named
      .map((one) => ({ kind: kindOf(one), text: printEndpoint(one.address, one.port) }))
      .toSorted((a, b) => compareText(a.text, b.text)),
    nodePort: frontends.find(({ address }) => address === anyAddress[family])?.port ?? 0,
    endpoints: endpoints.map((text) => ({ text, ...placeOfEndpoint(text, notes) })),
    internalPolicy: notes.internalPolicy,
    externalPolicy:
      outside.length === 0 ? notes.externalPolicy : outside.some(({ isNear }) => isNear) ? 'Local' : 'Cluster',
    ...(affinity.length === 0 ? {} : { affinity: [...new Set(affinity)].toSorted((a, b) => a - b) }),
    sourceRanges: named.some((one) => kindOf(one) === 'load-balancer') ? rangesOf(restricted) : notes.sourceRanges,
    healthCheckPort: health[0] ?? 0,
  };
}

/** The networks that may use restricted frontends. The frontend itself is no source from outside: a node may send from it. */
function rangesOf(restricted: readonly FrontendFacts[]): readonly string[] {
  const own = new Set(restricted.map(({ address }) => withPrefix(address)));
  const ranges = restricted.flatMap((one) => [...one.ranges]).filter((range) => !own.has(range));
  return [...new Set(ranges)].toSorted(compareText);
}
