import { usable } from '../bundle/endpoints.ts';
import type { Observation, ObservedConnections, ParityConnection, ParityConnections } from '@sluice/bundle';
import { addressOfEndpoint, type Family, readServers } from '@sluice/netfilter';
import { placeOf } from '../flows/destinations.ts';
import type { Destination } from '../flows/flow.ts';
import { endpointsOf } from '../prove/connection.ts';
import type { DeclaredFrontend } from '../prove/declared.ts';
import type { ComparedModes } from './differing-case.ts';
import { titleOf } from './frontends.ts';

/** What decides about tracked connections, of one family. */
export interface TrackedFrontends {
  readonly family: Family;
  /** Frontends of either side. */
  readonly destinations: readonly Destination[];
  /** What the bundle declares, by place. */
  readonly declaredAt: ReadonlyMap<string, DeclaredFrontend>;
  /** The node's own. */
  readonly addresses: readonly string[];
  readonly modes: ComparedModes;
}

/** In a report; the observation may have more. */
const pairsMax = 10_000;

/**
 * Says of each tracked connection what a move to the bundle makes of it. Rules decide about first packets alone, so established connections
 * stay with their endpoints, whether the bundle has these or not; IPVS forwards each packet by its own table.
 * @param families both sides of each family that the node serves
 * @returns undefined: the observation has no connections
 */
export function trackedConnections(
  seen: Observation,
  families: readonly TrackedFrontends[],
): ParityConnections | undefined {
  if (!seen.connections) return undefined;
  const { pairs, left } = seen.connections;
  const places = new Map(families.map((one) => [one.family, placesOf(one)] as const));
  const read = readServers(seen.servers);
  const servers = new Set([...read.servers.keys(), ...read.foreign]);
  const found: ParityConnection[] = [];
  const notCovered = { elsewhere: 0, left };
  for (const pair of pairs) {
    const family = pair.frontend.startsWith('[') ? 'ipv6' : 'ipv4';
    const of = families.find((one) => one.family === family);
    const destination = of && destinationOf(pair, of, places.get(family) ?? new Map());
    if (!of || !destination) notCovered.elsewhere += pair.count;
    else if (found.length >= pairsMax) notCovered.left += pair.count;
    else found.push(connectionOf(pair, destination, of, servers));
  }
  return { pairs: found, notCovered };
}

const placesOf = ({ destinations }: TrackedFrontends): ReadonlyMap<string, Destination> =>
  new Map(destinations.map((one) => [placeOf(one), one]));

const portOf = (place: string): number => Number(place.slice(place.lastIndexOf(':') + 1));

/** A frontend with the address, or a node port at one of the node's addresses. */
function destinationOf(
  { frontend, protocol }: ObservedConnections,
  { addresses }: TrackedFrontends,
  places: ReadonlyMap<string, Destination>,
): Destination | undefined {
  const address = addressOfEndpoint(frontend);
  const of = { port: portOf(frontend), protocol };
  const named = places.get(placeOf({ ...of, kind: 'address', address }));
  if (named) return named;
  if (address === '127.0.0.1' || address === '::1')
    return places.get(placeOf({ ...of, kind: 'localhost', address: '' }));
  return addresses.includes(address) ? places.get(placeOf({ ...of, kind: 'node-port', address: '' })) : undefined;
}

function connectionOf(
  pair: ObservedConnections,
  destination: Destination,
  { family, declaredAt, modes }: TrackedFrontends,
  servers: ReadonlySet<string>,
): ParityConnection {
  const { protocol, frontend, endpoint, count } = pair;
  const declared = declaredAt.get(placeOf(destination));
  const isThere = declared !== undefined && usable(endpointsOf(declared)).some(({ text }) => text === endpoint);
  const isOfIpvs =
    servers.has(`${frontend}/${protocol.toUpperCase()}`) && !modes.observed.every((mode) => mode === modes.desired);
  // At an address that the bundle does not have, flows are those of another program.
  const stale = protocol === 'udp' && declared !== undefined ? 'removed' : 'stale';
  return {
    frontend: titleOf(destination),
    family,
    services: destination.services,
    endpoint,
    count,
    after: isOfIpvs ? 'ends' : isThere ? 'kept' : stale,
  };
}
