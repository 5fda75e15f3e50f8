import {
  compareText,
  type Family,
  findSet,
  printEndpoint,
  printScheduler,
  type RealServer,
  readServerLine,
  type TransportProtocol,
  type VirtualServer,
} from '@sluice/netfilter';
import type { AddressFacts, EndpointFacts, PortFacts, ServiceFacts } from './facts.ts';
import {
  type HeaderNotes,
  commentBlockOf,
  notesFor,
  notesOf,
  placeOfEndpoint,
  type PortNote,
} from '../bundle/header.ts';
import { readEntry, virtualLines } from '../bundle/lines.ts';
import { portKey } from './port-key.ts';

/** The texts of a Service's files in mode ipvs; absent for missing files. */
export interface VirtualTexts {
  readonly ipvs?: string | undefined;
  readonly ipset?: string | undefined;
}

/**
 * The facts of one Service of mode ipvs in one family, over all nodes. Addresses, endpoints, schedulers, weights and affinity are those
 * of its virtual servers, source ranges and health checks those of its set entries; the comment block gives the rest.
 */
export function virtualFacts(service: string, family: Family, { ipvs = '', ipset = '' }: VirtualTexts): ServiceFacts {
  const notes = notesFor(family, notesOf(commentBlockOf(ipvs === '' ? ipset : ipvs)));
  const servers = serversIn(ipvs, family);
  const entries = entriesIn(ipset, family);
  const byPort = Map.groupBy(servers, (server) => keyOfServer(service, server, notes));
  const declared = notes.ports.map((port) => [keyOf(service, port.name, port.port, port.protocol), port] as const);
  const keys = new Set([...declared.map(([key]) => key), ...byPort.keys()]);
  const noteOf = new Map(declared);
  const ports = [...keys]
    .toSorted(compareText)
    .map((key) => portFacts(key, byPort.get(key) ?? [], noteOf.get(key), notes, entries));
  return { service, family, ...(notes.type === undefined ? {} : { type: notes.type }), ports };
}

type VirtualServerFacts = Omit<VirtualServer, 'real' | 'scheduler' | 'flags'> & {
  /** It is on the node's own addresses. */
  readonly onNode: boolean;
  scheduler?: string;
  readonly real: RealServer[];
};

/** Placeholders for the node's addresses, with which a line can be parsed. */
const machine = { ipv4: '0.0.0.0', ipv6: '::' } as const satisfies Record<Family, string>;

function serversIn(text: string, family: Family): readonly VirtualServerFacts[] {
  const found = new Map<string, VirtualServerFacts>();
  for (const bare of virtualLines(text)) {
    const onNode = bare.includes('${');
    const own = bare.includes('[') ? machine.ipv6 : machine.ipv4;
    const read = readServerLine(bare.replaceAll(/\$\{[^}]*\}/g, own));
    if ('error' in read || read.kind === 'timeouts') continue;
    const name = read.kind === 'virtual' ? read.server : read.of;
    if (name.family !== family) continue;
    const key = `${name.protocol} ${name.address} ${name.port}`;
    const server = found.get(key) ?? { ...name, onNode, real: [] };
    if (read.kind === 'real') server.real.push(read.server);
    else found.set(key, { ...read.server, scheduler: printScheduler(read.server), onNode, real: server.real });
    if (!found.has(key)) found.set(key, server);
  }
  return [...found.values()];
}

interface SetEntries {
  /** `10.96.0.10:80/tcp` → the kind of that address. */
  readonly kinds: ReadonlyMap<string, AddressFacts['kind']>;
  /** `10.96.0.10:80/tcp` → its source ranges. */
  readonly ranges: ReadonlyMap<string, readonly string[]>;
  readonly healthCheckPort: number;
}

const kindOfSet: Readonly<Record<string, AddressFacts['kind']>> = {
  'KUBE-CLUSTER-IP': 'cluster',
  'KUBE-EXTERNAL-IP': 'external',
  'KUBE-EXTERNAL-IP-LOCAL': 'external',
  'KUBE-LOAD-BALANCER': 'load-balancer',
};

function entriesIn(text: string, family: Family): SetEntries {
  const kinds = new Map<string, AddressFacts['kind']>();
  const ranges = new Map<string, readonly string[]>();
  let healthCheckPort = 0;
  for (const [, name = '', entry = ''] of text.matchAll(/^(?:@\S+ )?add (\S+) (\S+)$/gm)) {
    const set = findSet(name);
    if (set?.family !== family) continue;
    const { first, protocol, port, source } = readEntry(entry);
    const key = `${printEndpoint(first, Number(port))}/${protocol}`;
    const kind = kindOfSet[set.key];
    if (kind !== undefined) kinds.set(key, kind);
    if (set.key === 'KUBE-HEALTH-CHECK-NODE-PORT') healthCheckPort = Number(entry);
    if (set.key === 'KUBE-LOAD-BALANCER-SOURCE-CIDR') ranges.set(key, [...(ranges.get(key) ?? []), source]);
  }
  return { kinds, ranges, healthCheckPort };
}

const keyOf = (service: string, name: string, port: number, protocol: TransportProtocol): string =>
  portKey(`${service}${name === '' ? '' : `:${name}`}`, port, protocol);

/** The port that a virtual server belongs to: virtual servers have no names. */
function keyOfServer(service: string, { onNode, port, protocol }: VirtualServerFacts, { ports }: HeaderNotes): string {
  const note = ports.find((one) => one.protocol === protocol && (onNode ? one.nodePort : one.port) === port);
  return keyOf(service, note?.name ?? '', note?.port ?? port, protocol);
}

function portFacts(
  key: string,
  servers: readonly VirtualServerFacts[],
  note: PortNote | undefined,
  notes: HeaderNotes,
  { kinds, ranges, healthCheckPort }: SetEntries,
): PortFacts {
  const named = servers.filter(({ onNode }) => !onNode);
  const texts = named.map((server) => printEndpoint(server.address, server.port));
  const protocol = servers[0]?.protocol ?? note?.protocol ?? 'tcp';
  const open = texts.flatMap((text) => ranges.get(`${text}/${protocol}`) ?? []);
  const affinity = servers.flatMap(({ persistence }) => persistence ?? []);
  const addresses = texts
    .map((text) => ({ kind: kinds.get(`${text}/${protocol}`) ?? 'external', text }))
    .toSorted((a, b) => compareText(a.text, b.text));
  const isRestricting = addresses.some(({ kind }) => kind === 'load-balancer');
  const schedulers = [...new Set(servers.flatMap(({ scheduler }) => scheduler ?? []))].toSorted(compareText);
  return {
    key,
    protocol,
    addresses,
    nodePort: servers.find(({ onNode }) => onNode)?.port ?? 0,
    endpoints: endpointsOf(servers, notes),
    internalPolicy: notes.internalPolicy,
    externalPolicy: notes.externalPolicy,
    ...(affinity.length === 0 ? {} : { affinity: [...new Set(affinity)].toSorted((a, b) => a - b) }),
    ...(schedulers.length === 0 ? {} : { scheduler: schedulers.join(', ') }),
    sourceRanges: isRestricting ? [...new Set(open)].toSorted(compareText) : notes.sourceRanges,
    healthCheckPort,
  };
}

/** Weight 1, kube-proxy's weight of every endpoint, is left out. */
function endpointsOf(servers: readonly VirtualServerFacts[], notes: HeaderNotes): readonly EndpointFacts[] {
  const weights = new Map<string, Set<number>>();
  for (const { address, port, weight } of servers.flatMap(({ real }) => real)) {
    const text = printEndpoint(address, port);
    weights.set(text, (weights.get(text) ?? new Set<number>()).add(weight));
  }
  return [...weights]
    .toSorted(([a], [b]) => compareText(a, b))
    .map(([text, given]) => {
      const weight = [...given].toSorted((a, b) => a - b).join(', ');
      return { text, ...placeOfEndpoint(text, notes), ...(weight === '1' ? {} : { weight }) };
    });
}
