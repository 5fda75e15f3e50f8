import { type NftTable, nftTableIn, type Observation } from '@sluice/bundle';
import {
  type Family,
  objectOf,
  placeOfServer,
  placesIn,
  placesInTable,
  printEndpoint,
  type TransportProtocol,
} from '@sluice/netfilter';
import type { BundleView } from '../bundle/view.ts';
import { commonDestinations, compareDestinations, destinationsOf, placeOf } from '../flows/destinations.ts';
import type { Destination } from '../flows/flow.ts';
import type { ObservedNode } from '../observed/node.ts';

/** Every frontend of either side, and places of no Service that rules can still match: each once, in order. */
export function frontendsOf(
  view: BundleView,
  profile: string,
  seen: Observation,
  node: ObservedNode,
): readonly Destination[] {
  const { family } = node.tables;
  const index = view.index(profile, family);
  const desired = destinationsOf(family, [{ index, paths: index.paths }]);
  const all = [...desired, ...commonDestinations(view, profile, family), ...observedFrontends(seen, node, family)];
  const found = new Map<string, Destination>();
  for (const destination of all) {
    const key = placeOf(destination);
    // The bundle's come first: they name their Services.
    if (!found.has(key)) found.set(key, destination);
  }
  const isNamed = ({ kind, ...rest }: Destination): boolean =>
    kind === 'elsewhere' && found.has(placeOf({ ...rest, kind: 'address' }));
  return [...found.values()].filter((one) => !isNamed(one)).toSorted(compareDestinations);
}

/** Frontends that observed rules have, in one family. */
export function observedFrontends(seen: Observation, node: ObservedNode, family: Family): readonly Destination[] {
  const tables = [nftTableIn(seen, family === 'ipv4' ? 'ip' : 'ip6', 'kube-proxy'), nftTableIn(seen, 'inet', 'sluice')];
  const servers = [...(node.ipvs?.virtualServers.keys() ?? [])].flatMap((key) => placeOfServer(key) ?? []);
  const places = new Set([
    ...placesIn(node.tables),
    ...tables.flatMap((table) => (table ? placesOf(table, family) : [])),
    ...servers,
  ]);
  const own = new Set(node.addresses);
  return [...places].flatMap((place): readonly Destination[] => {
    const [protocol = '', address = '', port = ''] = place.split(' ');
    if (address.startsWith('127.') || address === '::1') return [];
    const of = { port: Number(port), protocol: protocol as TransportProtocol, services: [] };
    // Mode ipvs has a virtual server for each node port and address of the node.
    const isNodePort = address === '' || (own.has(address) && servers.includes(place));
    if (!isNodePort) return [{ ...of, kind: 'address', address }];
    return (['node-port', 'localhost'] as const).map((kind) => ({ ...of, kind, address: '' }));
  });
}

/** `10.96.0.10:80/tcp`, `node port 30080/tcp`, `localhost 30080/tcp`. */
export function titleOf({ kind, address, port, protocol }: Destination): string {
  if (kind === 'node-port') return `node port ${port}/${protocol}`;
  if (kind === 'localhost') return `localhost ${port}/${protocol}`;
  return `${printEndpoint(address, port)}/${protocol}`;
}

/** Sluice's table has both families: its maps are named by them. */
function placesOf(table: NftTable, family: Family): readonly string[] {
  const other = family === 'ipv4' ? '6' : '4';
  const isOther = (name: unknown): boolean => typeof name === 'string' && name.endsWith(other);
  const objects = table.objects.filter(({ map }) => !isOther(objectOf(map)['name']));
  return placesInTable({ ...table, objects });
}
