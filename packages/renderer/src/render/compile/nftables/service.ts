import type { Guard } from '@sluice/bundle';
import {
  cidrContains,
  compareText,
  type Family,
  maglevSizeOf,
  anyAddress,
  frontendKey,
  type NftScheduler,
  type TransportProtocol,
} from '@sluice/netfilter';
import { withoutExternalIPs } from '../../model/external-ips.ts';
import type { Endpoint, Node, Service, PortOfFamily, ServicePort } from '../../model/model.ts';
import { choicesOf, nftSchedulerOf, weighing } from '../../model/schedulers.ts';
import { selectForFleet, type Variant, type FleetSelection } from '../../select/fleet.ts';
import type { NodeFleet } from '../../select/guards.ts';
import { headerOfFamilies } from '../header.ts';
import { type GuardedLine, printLines } from '../lines.ts';
import { type AddElements, addingElements } from './elements.ts';
import { networkElements } from './networks.ts';

/**
 * The lines about the frontends of a Service port: kube-proxy's `syncProxyRules` in `pkg/proxy/nftables/proxier.go`, whose rules in chains
 * of Services are elements here. Lines do not depend on whether there are endpoints, except what happens without.
 */
function frontendLines(compiled: NftPort): readonly GuardedLine[] {
  const { port, here, family } = compiled;
  const add = addingElements(family);
  const frontends = frontendsOf(compiled);
  const near = frontends.filter(({ outside }) => outside === 'local');
  const always = frontends.filter(({ outside }) => outside === 'cluster');
  return [
    ...add('cluster', [here.clusterIP]),
    ...add('svc', frontends.map(dispatching(compiled, 'all'))),
    ...add('always', keysOf(always)),
    ...add('near', keysOf(near)),
    ...add('out', near.map(dispatching(compiled, 'local'))),
    ...noneLines(compiled, frontends, add),
    ...rangeLines(compiled, frontends, add),
    ...add('health', port.healthCheckNodePort === 0 ? [] : [String(port.healthCheckNodePort)]),
  ];
}

const keysOf = (frontends: readonly Frontend[]): readonly string[] => frontends.map(({ key }) => key);

const chains = {
  all: { plain: 'n', sticky: 's', l: '', count: '${count}' },
  local: { plain: 'l', sticky: 'r', l: 'l', count: '${localCount}' },
} as const;

/** `10.96.0.10 . tcp . 80 : goto n${count}` */
function dispatching(compiled: NftPort, list: keyof typeof chains): (frontend: Frontend) => string {
  const chain = chainOf(compiled, list);
  return ({ key, isNodePort }) => `${key} : goto ${isNodePort ? 'p' : ''}${chain}`;
}

/** The chain of a list, by how it chooses. A Maglev table has as many slots on every node. */
function chainOf({ port, scheduler }: NftPort, list: keyof typeof chains): string {
  const { plain, sticky, l, count } = chains[list];
  if (port.affinitySeconds !== undefined) return `${sticky}${count}t${port.affinitySeconds}`;
  if (scheduler === undefined) return `${plain}${count}`;
  const size = maglevSizeOf(scheduler);
  if (size !== undefined) return `m${l}${size}`;
  return `${scheduler === 'round-robin' ? 'i' : 'h'}${l}${count}`;
}

/** What happens to packets that no endpoint of the node's list serves. Left out where every node has the same endpoints. */
function noneLines(compiled: NftPort, frontends: readonly Frontend[], add: AddElements): readonly GuardedLine[] {
  const { cluster, hasAny } = compiled.selection;
  const isServedEverywhere = cluster.length === 1 && cluster[0]!.guard === undefined;
  const verdict = hasAny ? 'drop' : 'goto refuse';
  return add(
    'none',
    frontends
      .filter(({ list, outside }) => list === 'local' || outside === 'local' || !isServedEverywhere)
      .map(({ key }) => `${key} : ${verdict}`),
  );
}

/** The sources of restricted frontends. A node inside of the ranges may have a load-balancer address, and connect from it. */
function rangeLines({ here }: NftPort, frontends: readonly Frontend[], add: AddElements): readonly GuardedLine[] {
  const restricted = frontends.filter(({ isRestricted }) => isRestricted);
  if (restricted.length === 0) return [];
  const ranges = here.loadBalancerSourceRanges;
  const own: Guard = { kind: 'ip-in', negated: false, values: [...new Set(ranges)].toSorted(compareText) };
  const outsideRanges = here.loadBalancerIPs.filter((address) => !ranges.some((range) => cidrContains(range, address)));
  const sources = (texts: readonly string[]): readonly string[] =>
    restricted.flatMap(({ key }) => texts.map((text) => `${key} . ${text}`));
  return [
    ...add('fw', keysOf(restricted)),
    ...add('allow', sources(networkElements(ranges))),
    ...add('allow', sources(outsideRanges), own),
  ];
}

/** The places of an endpoint: a frontend, and which of its lists. */
interface Place {
  readonly frontend: Frontend;
  readonly slot: 'slot' | 'localSlot';
}

/**
 * The endpoints of a Service port: one line for each endpoint and list of nodes, with all frontends that it serves there; and a line on its
 * own node, by which packets of the endpoint that are translated to itself are masqueraded.
 */
function endpointLines(compiled: NftPort): readonly GuardedLine[] {
  const { selection, family, weightOf } = compiled;
  const add = addingElements(family);
  const lines = (variants: readonly Variant[], places: readonly Place[]): readonly GuardedLine[] =>
    variants.flatMap(({ guard, endpoints }) =>
      endpoints.flatMap((endpoint) =>
        add(
          protocolOf(compiled),
          places.map((place) => elementOf(place, endpoint, weightOf(endpoint))),
          guard,
        ),
      ),
    );
  const frontends = frontendsOf(compiled);
  const itself = selection.all.flatMap(({ address, nodeName }) =>
    add('loop', [`${address} . ${address}`], nodeName === undefined ? undefined : onNode(nodeName)),
  );
  return [
    ...lines(selection.cluster, servedBy(frontends, 'cluster')),
    ...lines(selection.local, [
      ...servedBy(frontends, 'local'),
      ...frontends
        .filter(({ outside }) => outside === 'local')
        .map((frontend): Place => ({ frontend, slot: 'localSlot' })),
    ]),
    ...itself,
  ];
}

/** An endpoint's packets to itself start on its own node. Where that is not named, any node may be the one. */
const onNode = (name: string): Guard => ({ kind: 'node', negated: false, values: [name] });

function servedBy(frontends: readonly Frontend[], list: Frontend['list']): readonly Place[] {
  return frontends.filter((frontend) => frontend.list === list).map((frontend) => ({ frontend, slot: 'slot' }));
}

/** `10.96.0.10 . 80 . ${slot} : 10.244.1.5 . 8080`, with weight 3 `${slot:3}`. */
function elementOf({ frontend, slot }: Place, { address, port }: Endpoint, weight: number): string {
  const variable = `\${${slot}${weight === 1 ? '' : `:${weight}`}}`;
  return `${frontend.address} . ${frontend.port} . ${variable} : ${address} . ${port}`;
}

/** The settings of a profile on which files of Services depend in mode nftables. */
export interface NftServiceOptions {
  readonly externalIPs: boolean;
  readonly families: readonly Family[];
}

/** The context in which all Services of a bundle are compiled. */
interface NftCompileContext {
  readonly fleet: NodeFleet;
  readonly nodes: ReadonlyMap<string, Node>;
}

/**
 * The file of one Service in mode nftables, for both families and all nodes at once.
 * @returns `''` when the Service has no address of the profile's families
 */
export function nftServiceText(whole: Service, options: NftServiceOptions, context: NftCompileContext): string {
  const service = options.externalIPs ? whole : withoutExternalIPs(whole);
  const families = options.families.toSorted(compareText);
  const ports = families.flatMap((family) => portsOf(service, family, context));
  const lines = ports.flatMap((port) => [...frontendLines(port), ...endpointLines(port)]);
  const choices = choicesOf(service, nftSchedulerOf(service));
  return printLines(headerOfFamilies(service, families, weighing(service, context.nodes), choices), lines);
}

function portsOf(service: Service, family: Family, { fleet, nodes }: NftCompileContext): readonly NftPort[] {
  const common = { family, scheduler: nftSchedulerOf(service), weightOf: weighing(service, nodes) };
  return service.ports.flatMap((port) => {
    const here = port.families[family];
    return here ? [{ port, here, selection: selectForFleet(port, here, fleet), ...common }] : [];
  });
}

/** The input of the lines of one Service port in one family. */
interface NftPort {
  readonly port: ServicePort;
  readonly here: PortOfFamily;
  readonly family: Family;
  readonly selection: FleetSelection;
  /** undefined: at random. */
  readonly scheduler: NftScheduler | undefined;
  readonly weightOf: (endpoint: Endpoint) => number;
}

/** An address and port of a Service port, and how it is served. */
interface Frontend {
  /** `10.96.0.10 . tcp . 80` */
  readonly key: string;
  readonly address: string;
  readonly port: number;
  readonly isNodePort: boolean;
  /** The list of endpoints that serves it. */
  readonly list: 'cluster' | 'local';
  /** How it is reached from outside; undefined: a ClusterIP. With policy Local sources outside use the local endpoints. */
  readonly outside?: 'cluster' | 'local';
  /** Only the Service's source ranges may use it. */
  readonly isRestricted: boolean;
}

/** kube-proxy's name of a protocol in rules. */
const protocolOf = ({ port }: NftPort): TransportProtocol => port.protocol.toLowerCase() as TransportProtocol;

/** The port's frontends, each once: ClusterIP, external IPs, load-balancer addresses, node port. */
function frontendsOf(compiled: NftPort): readonly Frontend[] {
  const { port, here, family } = compiled;
  const outside = port.externalTrafficPolicy === 'Local' ? 'local' : 'cluster';
  const restricted = new Set(here.loadBalancerSourceRanges.length > 0 ? here.loadBalancerIPs : []);
  const external = new Set([...here.externalIPs, ...here.loadBalancerIPs]);
  external.delete(here.clusterIP);
  const of = (address: string, number: number, rest: Partial<Frontend>): Frontend => ({
    key: frontendKey({ address, protocol: protocolOf(compiled), port: number }),
    address,
    port: number,
    isNodePort: false,
    list: 'cluster',
    isRestricted: restricted.has(address),
    ...rest,
  });
  return [
    of(here.clusterIP, port.port, { list: port.internalTrafficPolicy === 'Local' ? 'local' : 'cluster' }),
    ...[...external].map((address) => of(address, port.port, { outside })),
    ...(port.nodePort === 0 ? [] : [of(anyAddress[family], port.nodePort, { outside, isNodePort: true })]),
  ];
}
