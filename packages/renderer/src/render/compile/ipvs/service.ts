import type { Guard, GuardedRule, RuleFile } from '@sluice/bundle';
import {
  compareText,
  type Family,
  nodePortSets,
  printAttributes,
  type Scheduler,
  type SetKey,
  setName,
} from '@sluice/netfilter';
import { withoutExternalIPs } from '../../model/external-ips.ts';
import type { Endpoint, Node, PortOfFamily, Service, ServicePort } from '../../model/model.ts';
import { choicesOf, ipvsSchedulerOf, weighing } from '../../model/schedulers.ts';
import { type FleetSelection, selectForFleet, type Variant } from '../../select/fleet.ts';
import { type NodeFleet, nodeGuards } from '../../select/guards.ts';
import { headerOf, headerOfFamilies } from '../header.ts';
import { type GuardedLine, lineWhere } from '../lines.ts';

/** The input of the lines of one Service port in one family. */
interface IpvsPort {
  readonly port: ServicePort;
  readonly here: PortOfFamily;
  readonly family: Family;
  readonly selection: FleetSelection;
  readonly fleet: NodeFleet;
  readonly scheduler: Scheduler;
  readonly weightOf: (endpoint: Endpoint) => number;
  /** The variable for the addresses of node ports. */
  readonly nodePortAddress: NodePortAddress;
}

type NodePortAddress = '${host.nodePortAddresses}' | '${node.address}';

/** An address and port of a Service port, and whether only local endpoints serve it. */
interface IpvsFrontend {
  readonly address: string;
  readonly port: number;
  readonly onlyLocal: boolean;
}

/** The port's frontends, each address once, in the order of kube-proxy's `syncService` calls. */
function frontendsOf({ port, here, nodePortAddress }: IpvsPort): readonly IpvsFrontend[] {
  const [inside, outside] = [port.internalTrafficPolicy === 'Local', port.externalTrafficPolicy === 'Local'];
  const frontends: IpvsFrontend[] = [{ address: here.clusterIP, port: port.port, onlyLocal: inside }];
  for (const address of new Set([...here.externalIPs, ...here.loadBalancerIPs]))
    frontends.push({ address, port: port.port, onlyLocal: outside });
  if (port.nodePort !== 0) frontends.push({ address: nodePortAddress, port: port.nodePort, onlyLocal: outside });
  return frontends;
}

/** The entries of a Service port in kube-proxy's sets (`syncProxyRules` in `pkg/proxy/ipvs/proxier.go`). */
function entryLines(compiled: IpvsPort): readonly GuardedLine[] {
  const { port, here } = compiled;
  const add = adder(compiled);
  const outside = port.externalTrafficPolicy === 'Local' ? 'KUBE-EXTERNAL-IP-LOCAL' : 'KUBE-EXTERNAL-IP';
  return [
    add('KUBE-CLUSTER-IP', frontendEntry(compiled, here.clusterIP)),
    add('KUBE-IPVS-IPS', here.clusterIP),
    ...here.externalIPs.flatMap((address) => [
      add(outside, frontendEntry(compiled, address)),
      add('KUBE-IPVS-IPS', address),
    ]),
    ...here.loadBalancerIPs.flatMap((address) => balancerLines(compiled, address)),
    ...nodePortLines(compiled),
    ...loopBackLines(compiled),
  ];
}

type Add = (set: SetKey, entry: string, guard?: Guard) => GuardedLine;

function adder({ family }: IpvsPort): Add {
  return (set, entry, guard) => lineWhere(guard, `add ${setName(set, family)} ${entry}`);
}

/** `10.96.0.10,tcp:80` */
function frontendEntry({ port }: IpvsPort, address: string, number = port.port): string {
  return `${address},${port.protocol.toLowerCase()}:${number}`;
}

function balancerLines(compiled: IpvsPort, address: string): readonly GuardedLine[] {
  const { port, here } = compiled;
  const add = adder(compiled);
  const entry = frontendEntry(compiled, address);
  const ranges = here.loadBalancerSourceRanges;
  return [
    add('KUBE-LOAD-BALANCER', entry),
    ...(port.externalTrafficPolicy === 'Local' ? [add('KUBE-LOAD-BALANCER-LOCAL', entry)] : []),
    ...(ranges.length > 0 ? [add('KUBE-LOAD-BALANCER-FW', entry)] : []),
    ...ranges.map((range) => add('KUBE-LOAD-BALANCER-SOURCE-CIDR', `${entry},${range}`)),
    // A node inside the ranges connects to the address from that same address, which kube-ipvs0 carries.
    ...(ranges.length > 0 ? [add('KUBE-LOAD-BALANCER-SOURCE-IP', `${entry},${address}`, ownIn(ranges, false))] : []),
    add('KUBE-IPVS-IPS', address),
  ];
}

/** A guard for nodes whose own address is in one of the ranges, or, negated, in none. */
function ownIn(ranges: readonly string[], negated: boolean): Guard {
  return { kind: 'ip-in', negated, values: [...new Set(ranges)].toSorted(compareText) };
}

function nodePortLines(compiled: IpvsPort): readonly GuardedLine[] {
  const { port, nodePortAddress } = compiled;
  const add = adder(compiled);
  const lines: GuardedLine[] = [];
  if (port.nodePort !== 0) {
    const entry =
      port.protocol === 'SCTP' ? frontendEntry(compiled, nodePortAddress, port.nodePort) : String(port.nodePort);
    const [all, local] = nodePortSets[port.protocol.toLowerCase() as Lowercase<typeof port.protocol>];
    lines.push(add(all, entry));
    if (port.externalTrafficPolicy === 'Local') lines.push(add(local, entry));
  }
  if (port.healthCheckNodePort !== 0) lines.push(add('KUBE-HEALTH-CHECK-NODE-PORT', String(port.healthCheckNodePort)));
  return lines;
}

/** Entries by which hairpin traffic is masqueraded, on the endpoint's own node. */
function loopBackLines(compiled: IpvsPort): readonly GuardedLine[] {
  const add = adder(compiled);
  return usedAtHome(compiled).map((endpoint) => {
    const entry = `${frontendEntry(compiled, endpoint.address, endpoint.port)},${endpoint.address}`;
    return add('KUBE-LOOP-BACK', entry, { kind: 'node', negated: false, values: [endpoint.nodeName!] });
  });
}

/** The endpoints that their own node uses, by text. */
function usedAtHome({ selection, fleet }: IpvsPort): readonly Endpoint[] {
  const used = new Set<string>();
  for (const { guard, endpoints } of [...selection.cluster, ...selection.local]) {
    const holds = holdsOn(guard, fleet);
    for (const { nodeName, text } of endpoints) if (nodeName !== undefined && holds(nodeName)) used.add(text);
  }
  return selection.all.filter(({ text }) => used.has(text));
}

const protocolOptions = { TCP: '-t', UDP: '-u', SCTP: '--sctp-service' } as const;

/** The virtual and real servers of a Service port: kube-proxy's `syncService` and `syncEndpoint`. */
function serverLines(compiled: IpvsPort): readonly GuardedLine[] {
  return frontendsOf(compiled).flatMap((frontend) => {
    const name = `${protocolOptions[compiled.port.protocol]} ${nameOf(compiled, frontend)}`;
    return [{ text: `-A ${name}${attributes(compiled)}` }, ...realLines(compiled, frontend, name)];
  });
}

/** `10.96.0.10:80`; brackets mark the lines of IPv6. */
function nameOf({ family }: IpvsPort, { address, port }: IpvsFrontend): string {
  return family === 'ipv6' ? `[${address}]:${port}` : `${address}:${port}`;
}

function attributes({ port, family, scheduler }: IpvsPort): string {
  const persistence = port.affinitySeconds;
  // kube-proxy sets flag 0x10 for mh (`IP_VS_SVC_F_SCHED2`): the hash includes the client's port.
  const flags = scheduler === 'mh' ? (['mh-port'] as const) : [];
  return printAttributes({ family, scheduler, flags, ...(persistence === undefined ? {} : { persistence }) });
}

function realLines(compiled: IpvsPort, frontend: IpvsFrontend, name: string): readonly GuardedLine[] {
  const real = ({ guard, endpoints }: Variant): readonly GuardedLine[] =>
    endpoints.map((endpoint) => lineWhere(guard, realText(compiled, name, endpoint)));
  const { local, cluster } = compiled.selection;
  if (!frontend.onlyLocal || local.length === 0) return cluster.flatMap(real);
  const key = `${nameOf(compiled, frontend)}/${compiled.port.protocol}`;
  return [...local, ...elsewhere(compiled, key)].flatMap(real);
}

function realText({ weightOf }: IpvsPort, name: string, endpoint: Endpoint): string {
  return `-a ${name} -r ${endpoint.text} -m -w ${weightOf(endpoint)}`;
}

/**
 * The endpoints of nodes without a local one under policy Local: the same as under policy Cluster (kubernetes/kubernetes#97081).
 * A line has one guard, so where the endpoints depend on the node, the nodes are listed by name.
 * @param key the virtual server in guards
 */
function elsewhere({ selection, fleet }: IpvsPort, key: string): readonly Variant[] {
  const [first, ...others] = selection.cluster;
  if (!first) return [];
  if (others.length === 0 && !first.guard)
    return [{ guard: { kind: 'local', negated: true, chain: key }, endpoints: first.endpoints }];
  const served = new Set(selection.local.flatMap(({ guard }) => namesOf(guard)));
  return selection.cluster.flatMap(({ guard, endpoints }) => {
    const holds = holdsOn(guard, fleet);
    const names = fleet.nodes.map(({ name }) => name).filter((name) => !served.has(name) && holds(name));
    if (names.length === 0) return [];
    return nodeGuards(names, fleet, true).map((named): Variant => ({ guard: named, endpoints }));
  });
}

function namesOf(guard: Guard | undefined): readonly string[] {
  return guard?.kind === 'node' ? guard.values : [];
}

/** The settings of a profile on which files of Services depend in mode ipvs. */
export interface IpvsServiceOptions {
  readonly externalIPs: boolean;
  readonly families: readonly Family[];
  /** The scheduler of Services without their own. */
  readonly scheduler: Scheduler;
  readonly nodePortAddress: NodePortAddress;
  /** Source ranges also apply to the node itself: from kube-proxy 1.29 on. */
  readonly filtersNode: boolean;
}

/** The context in which all Services of a bundle are compiled. */
interface IpvsCompileContext {
  readonly fleet: NodeFleet;
  readonly nodes: ReadonlyMap<string, Node>;
}

/** The lines of one Service in mode ipvs, for all nodes at once. */
export interface IpvsService {
  readonly header: readonly string[];
  readonly entries: readonly GuardedLine[];
  readonly servers: readonly GuardedLine[];
  /** By family, only where source ranges need rules. */
  readonly rules: ReadonlyMap<Family, RuleFile>;
}

/** @returns undefined when the Service has no address of the profile's families */
export function compileIpvsService(
  whole: Service,
  options: IpvsServiceOptions,
  context: IpvsCompileContext,
): IpvsService | undefined {
  const service = options.externalIPs ? whole : withoutExternalIPs(whole);
  const families = options.families.toSorted(compareText);
  const ports = families.flatMap((family) => portsOf(service, family, options, context));
  if (ports.length === 0) return undefined;
  const ownScheduler = service.scheduler && ipvsSchedulerOf(service, options.scheduler);
  const rules = families.flatMap((family) => {
    const guarded = options.filtersNode ? ports.filter((port) => port.family === family).flatMap(outFilterRules) : [];
    if (guarded.length === 0) return [];
    const sections = [{ table: 'filter' as const, chains: [], rules: guarded }];
    return [[family, { header: headerOf(service, family), sections }] as const];
  });
  return {
    header: headerOfFamilies(service, families, weighing(service, context.nodes), choicesOf(service, ownScheduler)),
    entries: ports.flatMap(entryLines),
    servers: ports.flatMap(serverLines),
    rules: new Map(rules),
  };
}

function portsOf(
  service: Service,
  family: Family,
  { scheduler, nodePortAddress }: IpvsServiceOptions,
  { fleet, nodes }: IpvsCompileContext,
): readonly IpvsPort[] {
  const weightOf = weighing(service, nodes);
  const common = { family, fleet, scheduler: ipvsSchedulerOf(service, scheduler), weightOf, nodePortAddress };
  return service.ports.flatMap((port) => {
    const here = port.families[family];
    return here ? [{ port, here, selection: selectForFleet(port, here, fleet), ...common }] : [];
  });
}

/** Drops connections of nodes outside the source ranges to the address that the node itself carries. */
function outFilterRules({ port, here }: IpvsPort): readonly GuardedRule[] {
  const ranges = here.loadBalancerSourceRanges;
  if (ranges.length === 0) return [];
  const [guard, protocol] = [ownIn(ranges, true), port.protocol.toLowerCase()];
  return here.loadBalancerIPs.map((address) => ({
    guard,
    text: `-A KUBE-IPVS-OUT-FILTER -s ${address} -m ipvs --vaddr ${address} --vproto ${protocol} --vport ${port.port} -j DROP`,
  }));
}

/** @returns a predicate on node names: whether the guard of a list of endpoints holds there */
function holdsOn(guard: Guard | undefined, fleet: NodeFleet): (node: string) => boolean {
  if (!guard) return () => true;
  if (guard.kind !== 'zone' && guard.kind !== 'node')
    throw new TypeError(`Cannot evaluate guard @${guard.kind}: endpoints are selected by zone or node`);
  const values = new Set(guard.values);
  const isNamed =
    guard.kind === 'node'
      ? (node: string): boolean => values.has(node)
      : (node: string): boolean => values.has(fleet.zoneOf.get(node) ?? '');
  return (node) => isNamed(node) !== guard.negated;
}
