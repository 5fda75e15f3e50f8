import {
  commentBlockOf,
  type HeaderNote,
  type HeaderNotes,
  notesFor,
  notesOf,
  type PortNote,
  readPath,
} from '@sluice/bundle';
import {
  compareText,
  type Family,
  isSetsTool,
  printEndpoint,
  serversFileOf,
  type TrafficPolicy,
} from '@sluice/netfilter';
import type { BundleView } from '../bundle/view.ts';
import { portKey } from '../facts/facts.ts';
import { familiesOf } from '../facts/read.ts';

/** A port of a Service in one family, as the comment block of its file declares it. */
export interface DeclaredPort {
  /** `shop/web:http 80/TCP` */
  readonly key: string;
  /** `shop/web` */
  readonly service: string;
  readonly family: Family;
  /** The file of the first profile. */
  readonly path: string;
  /** The profiles that declare the same, in byte order. */
  readonly profiles: readonly string[];
  readonly internalPolicy: TrafficPolicy;
  readonly externalPolicy: TrafficPolicy;
  /** What clients outside of the cluster use: `203.0.113.9:80`, `node port 30080`. */
  readonly outside: readonly string[];
  /** Whether its node port is open to processes of the node alone, on loopback addresses. */
  readonly isOnLocalhost: boolean;
  /** Usable or not, each with the zone of its node where it has none itself. */
  readonly endpoints: readonly HeaderNote[];
}

/**
 * All ports that a bundle declares, by path. Only comment blocks are read: `sluice prove` checks that the rules do what they declare.
 * @returns a port for each different declaration: profiles of other modes or versions may declare other weights or endpoints
 */
export function declaredPorts(view: BundleView): readonly DeclaredPort[] {
  const found = new Map<string, { block: string; profiles: string[]; ports: readonly DeclaredPort[] }[]>();
  for (const path of [...view.files.keys()].toSorted(compareText)) {
    const what = readPath(path);
    if (what?.kind !== 'service') continue;
    if (isSetsTool(what.tool) && view.files.has(serversFileOf(path))) continue;
    const lines = commentBlockOf(view.files.get(path) ?? '');
    const isOnLocalhost = opensLocalhostAlone(view, what.profile);
    const block = [`localhost ${isOnLocalhost}`, ...lines].join('\n');
    const service = `${what.namespace}/${what.name}`;
    const key = `${service} ${familiesOf(what.tool).join()}`;
    const known = found.get(key) ?? [];
    const same = known.find((one) => one.block === block);
    if (same) {
      same.profiles.push(what.profile);
      continue;
    }
    const profiles = [what.profile];
    const notes = notesOf(lines);
    const ports = familiesOf(what.tool).flatMap((family) =>
      portsOf({ service, family, path, profiles, isOnLocalhost }, notesFor(family, notes), view),
    );
    found.set(key, [...known, { block, profiles, ports }]);
  }
  return [...found.values()].flat().flatMap(({ ports }) => ports);
}

type Declarer = Pick<DeclaredPort, 'service' | 'family' | 'path' | 'profiles' | 'isOnLocalhost'>;

/** Whether a profile opens node ports on loopback addresses, and nowhere else. */
function opensLocalhostAlone({ profiles }: BundleView, name: string): boolean {
  const open = profiles.get(name)?.nodePortAddresses ?? [];
  return open.length > 0 && open.every((cidr) => cidr.startsWith('127.') || cidr === '::1/128');
}

function portsOf(declarer: Declarer, notes: HeaderNotes, view: BundleView): readonly DeclaredPort[] {
  const endpoints = notes.endpoints.map((one): HeaderNote => {
    const zone = one.zone ?? (one.node === undefined ? undefined : view.nodes.get(one.node)?.zone);
    return zone === undefined ? one : { ...one, zone };
  });
  const { internalPolicy, externalPolicy } = notes;
  return notes.ports.map((port) => ({
    ...declarer,
    key: portKey(`${declarer.service}${port.name === '' ? '' : `:${port.name}`}`, port.port, port.protocol),
    internalPolicy,
    externalPolicy,
    isOnLocalhost: declarer.isOnLocalhost && port.nodePort !== 0,
    outside: outsideOf(port, notes, declarer.isOnLocalhost),
    endpoints: endpoints.filter((one) => one.port === port.name),
  }));
}

const outsideOf = (port: PortNote, notes: HeaderNotes, isOnLocalhost: boolean): readonly string[] => [
  ...[...notes.externalAddresses, ...notes.loadBalancerAddresses].map((address) => printEndpoint(address, port.port)),
  ...(port.nodePort === 0 || isOnLocalhost ? [] : [`node port ${port.nodePort}`]),
];
