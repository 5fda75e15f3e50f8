import { clusterEndpoints, localEndpoints, usable } from '../bundle/endpoints.ts';
import {
  addressOfEndpoint,
  type NftFrontend,
  perKey,
  printNftEndpoint,
  readNftScheduler,
  slotCounts,
} from '@sluice/netfilter';
import type { HeaderNote, HeaderNotes } from '@sluice/bundle';
import type { NodeOf } from '../bundle/node.ts';
import {
  choice,
  type DeclaredConnection,
  endpointsOf,
  type ExpectedOutcome,
  isAllowed,
  isLocalPod,
  isOpen,
  knowsPods,
} from './connection.ts';

/**
 * The outcome that a Service's declaration demands of a node of mode nftables: kube-proxy's `syncProxyRules` in `pkg/proxy/nftables`.
 * At addresses that the profile does not choose nothing matches node ports; on loopback addresses kube-proxy 1.38 serves or rejects them.
 */
export function expectedNft(connection: DeclaredConnection): ExpectedOutcome {
  const { frontend, node, family, source, trafficPolicy } = connection;
  const { role, destination, declared } = frontend;
  const { notes } = declared;
  const isLocalhost = role === 'node-port' && destination.kind === 'localhost';
  const isListened = isLocalhost && trafficPolicy.listensOnLocalhost === true && destination.protocol === 'tcp';
  if (role === 'node-port' && !isListened && !isOpen(node, family, destination, trafficPolicy))
    return { kind: isLocalhost && trafficPolicy.refusesLocalhost === true ? 'reject' : 'pass' };
  // Before translation, so that they count where nothing serves the address, too.
  if (role === 'load-balancer' && !isAllowed(notes, node, family, source)) return { kind: 'drop' };
  const endpoints = endpointsOf(frontend);
  // Without an endpoint there is no listener, and the kernel refuses what no program of the node accepts.
  const none = { kind: isListened ? 'pass' : 'reject' } as const;
  if (usable(endpoints).length === 0) return none;
  const policy = role === 'cluster' ? notes.internalPolicy : notes.externalPolicy;
  const isKnown = knowsPods(connection);
  const isPod = isKnown && isLocalPod(connection);
  const isOutside = !isPod && source.class !== 'node';
  const isLocal = policy === 'Local' && (role === 'cluster' || isOutside || isLocalhost);
  const list = isLocal ? localEndpoints(endpoints, node) : clusterEndpoints(endpoints, node);
  if (list.length === 0) return isLocalhost ? none : { kind: 'drop' };
  const { scheduler, shares } = choosersOf(list, '', () => readChooser(list, notes));
  const mayBeItself = hereOf(notes, node.name, () => readHere(notes, node)).has(source.address);
  const isItself = (text: string): boolean => mayBeItself && addressOfEndpoint(text) === source.address;
  const masked = (text: string): boolean => {
    if (isListened || isItself(text)) return true;
    if (role === 'cluster') return trafficPolicy.masqueradeAll === true || (isKnown && !isPod);
    return policy === 'Cluster' || (source.class === 'node' && !isPod);
  };
  return { ...choice(list, notes, masked, shares), ...(scheduler && shares.size > 1 ? { scheduler } : {}) };
}

/** How a list of endpoints is chosen from, read once for all connections and nodes: a list is of one Service. */
interface Chooser {
  readonly scheduler: NftFrontend['scheduler'];
  readonly shares: ReadonlyMap<string, number>;
}

const choosersOf = perKey<readonly HeaderNote[], Chooser>();

function readChooser(list: readonly HeaderNote[], notes: HeaderNotes): Chooser {
  const scheduler = readNftScheduler(notes.scheduler ?? '');
  return { scheduler, shares: readShares(list, scheduler) };
}

/**
 * The addresses that a node masquerades on their way to themselves: those of endpoints that some node uses, on their own node, or on all
 * where none is named. The table has them by address, so one entry of a Service decides for all with that address.
 */
const hereOf = perKey<HeaderNotes, ReadonlySet<string>>();

function readHere(notes: HeaderNotes, node: NodeOf): ReadonlySet<string> {
  const isLocal = notes.internalPolicy === 'Local' || notes.externalPolicy === 'Local';
  const used = [...Map.groupBy(notes.endpoints, ({ port }) => port).values()].flatMap((list) => [
    ...usable(list),
    ...(isLocal ? localEndpoints(list, node) : []),
  ]);
  const own = used.filter((endpoint) => endpoint.node === undefined || endpoint.node === node.name);
  return new Set(own.map(({ text }) => addressOfEndpoint(text)));
}

/** The share of each endpoint, by its slots. Endpoints for which a table has none are left out. */
function readShares(list: readonly HeaderNote[], scheduler: NftFrontend['scheduler']): ReadonlyMap<string, number> {
  const weights = new Map(
    list.flatMap(({ text, weight }) => (weight > 1 ? [[nftEndpoint(text), weight] as const] : [])),
  );
  const chooser = { ...(scheduler ? { scheduler } : {}), ...(weights.size > 0 ? { weights } : {}) };
  const counts = slotCounts(
    chooser,
    list.map(({ text }) => nftEndpoint(text)),
  );
  const sum = [...counts.values()].reduce((all, count) => all + count, 0);
  return new Map([...counts].map(([endpoint, count]) => [printNftEndpoint(endpoint), count / sum]));
}

/** `10.244.1.5 . 8080` of `10.244.1.5:8080`. */
const nftEndpoint = (text: string): string => `${addressOfEndpoint(text)} . ${text.slice(text.lastIndexOf(':') + 1)}`;
