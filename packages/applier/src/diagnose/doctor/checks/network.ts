import {
  addressOfEndpoint,
  canonicalAddress,
  type ExaminedTarget,
  type Family,
  type Finding,
  ipvsInterface,
} from '@sluice/netfilter';
import type { DesiredFacts, Facts, Frontend, ListenerFacts, RouteFacts } from '../facts.ts';
import { localAddresses } from '../packets.ts';
import { atLoopback, printFrontendOf } from '../target.ts';

/** IPv6 needs this much (RFC 8200, section 5), and so does IPv4 in practice. */
const mtuMin = 1280;

/** Forwarding, routes, next hops, interfaces and what the kernel counted. */
export function* networkChecks(
  target: ExaminedTarget,
  frontends: readonly Frontend[],
  desired: DesiredFacts,
  facts: Facts,
): Iterable<Finding> {
  const served = frontends.filter(({ endpoints }) => endpoints.length > 0);
  const endpoints = new Set(served.flatMap((one) => one.endpoints.map(({ text }) => addressOfEndpoint(text))));
  for (const family of new Set(served.map((one) => one.family))) yield* forwardingChecks(family, endpoints, facts);
  yield* routeChecks(served, endpoints, facts);
  yield* neighbourChecks(endpoints, facts);
  yield* mtuChecks(target, endpoints, facts);
  yield* reversePathChecks(facts);
  yield* nodeAddressChecks(target, served, desired, facts);
  yield* portChecks(target, served, facts);
  yield* hairpinChecks(target, endpoints, facts);
  yield* bridgeChecks(endpoints, facts);
}

/** The addresses of all endpoints, each once. */
type EndpointAddresses = ReadonlySet<string>;

const familyOf = (address: string): Family => (address.includes(':') ? 'ipv6' : 'ipv4');

function* forwardingChecks(family: Family, endpoints: EndpointAddresses, facts: Facts): Iterable<Finding> {
  const { sysctls } = facts;
  const own = new Set(localAddresses(facts));
  const isOnlyHere = [...endpoints].every((one) => familyOf(one) !== family || own.has(one));
  if (!sysctls || isOnlyHere) return;
  if (family === 'ipv6' && sysctls.get('net/ipv6/conf/all/disable_ipv6') === '1') {
    const key = 'net.ipv6.conf.all.disable_ipv6';
    yield { code: 'IPV6_OFF', certainty: 'certain', evidence: [`${key} is 1`], fix: `sysctl -w ${key}=0` };
    return;
  }
  const general = family === 'ipv4' ? 'net/ipv4/ip_forward' : 'net/ipv6/conf/all/forwarding';
  if (sysctls.get(general) === '0') {
    const key = general.replaceAll('/', '.');
    yield { code: 'FORWARDING_OFF', certainty: 'certain', evidence: [`${key} is 0`], fix: `sysctl -w ${key}=1` };
    return;
  }
  const used = new Set(
    (facts.routes ?? []).flatMap(({ dev, to }) => (dev !== undefined && familyOf(to) === family ? [dev] : [])),
  );
  for (const name of used) {
    const key = `net/${family}/conf/${name}/forwarding`;
    if (name === 'lo' || sysctls.get(key) !== '0') continue;
    yield {
      code: 'FORWARDING_OFF',
      certainty: 'certain',
      about: name,
      evidence: [`${key.replaceAll('/', '.')} is 0`],
      // A dot in an interface's name would end the key.
      fix: `sysctl -w ${key}=1`,
    };
  }
}

function* routeChecks(
  served: readonly Frontend[],
  endpoints: EndpointAddresses,
  { routes = [], interfaces = [] }: Facts,
): Iterable<Finding> {
  const vips = new Set(served.flatMap(({ address }) => address ?? []));
  // A node without any route to clients outside of the cluster has none back either.
  const isReached = (address: string): boolean =>
    routes.some(({ to, from, dev }) => to === address && from === undefined && dev !== undefined);
  for (const route of routes) {
    const { to, from, dev, why = 'no route' } = route;
    const isEndpoint = endpoints.has(to);
    if (dev !== undefined) {
      const isDown = interfaces.some(({ name, isUp }) => name === dev && !isUp);
      if (isDown && isEndpoint)
        yield {
          code: 'INTERFACE_DOWN',
          certainty: 'certain',
          about: dev,
          evidence: [`the route to endpoint ${to} uses ${dev}, which is down`],
          fix: `ip link set ${dev} up`,
        };
      continue;
    }
    const isVip = vips.has(to);
    if (from === undefined ? !isEndpoint && !isVip : !isReached(to)) continue;
    const what = isEndpoint ? `endpoint ${to}` : isVip ? `the Service's address ${to}` : to;
    const replies = from === undefined ? '' : ` for replies from ${from}`;
    yield {
      code: 'NO_ROUTE',
      certainty: 'certain',
      about: `${to}${replies}`,
      evidence: [`ip route get ${printQuestion(route)}: ${why}`, `no route to ${what}${replies}`],
      fix: `ip ${to.includes(':') ? '-6 ' : ''}route show match ${to}`,
    };
  }
}

/** As `ip route get` takes it: `10.244.1.5 from 10.244.1.6 iif cali1`. */
export const printQuestion = ({ to, from, iif }: Pick<RouteFacts, 'to' | 'from' | 'iif'>): string =>
  [to, ...(from === undefined ? [] : ['from', from]), ...(iif === undefined ? [] : ['iif', iif])].join(' ');

/** The kernel removes entries in between. */
const neighbourFillMax = 0.9;

function neighbourChecks(
  endpoints: EndpointAddresses,
  { routes = [], failedNeighbours = [], neighbours = [] }: Facts,
): readonly Finding[] {
  const failed = new Set(failedNeighbours);
  const found: Finding[] = [];
  for (const { to, via, dev, iif } of routes) {
    const hop = via ?? to;
    if (iif !== undefined || dev === undefined || !endpoints.has(to) || !failed.has(hop)) continue;
    found.push({
      code: 'NEIGHBOUR_FAILED',
      certainty: 'certain',
      about: hop,
      evidence: [`endpoint ${to} is reached through ${hop} on ${dev}, whose neighbour entry is FAILED`],
      fix: `ip neigh flush to ${hop} dev ${dev}`,
    });
  }
  for (const { family, entries, max, fulls } of neighbours) {
    if (fulls === 0) continue;
    // Counted since the boot: alone it does not tell that the table is full now.
    const isFull = entries >= max * neighbourFillMax;
    found.push({
      code: 'NEIGHBOUR_TABLE_FULL',
      certainty: isFull ? 'certain' : found.length > 0 ? 'likely' : 'note',
      about: family,
      evidence: [`${entries} of ${max} neighbours of ${family}; the table was full ${fulls} times since the boot`],
      fix: `sysctl -w net.${family}.neigh.default.gc_thresh3=${2 * max}`,
    });
  }
  return found;
}

/** A route through an interface that takes less than pods send, and packets that did not fit. */
function* mtuChecks(
  target: ExaminedTarget,
  endpoints: EndpointAddresses,
  { routes = [], interfaces = [], counters }: Facts,
): Iterable<Finding> {
  const used = new Set(
    routes.flatMap(({ to, dev, iif }) => (dev !== undefined && iif === undefined && endpoints.has(to) ? [dev] : [])),
  );
  const largest = Math.max(
    0,
    ...interfaces.filter(({ name }) => name !== 'lo' && name !== ipvsInterface).map(({ mtu }) => mtu),
  );
  const failed = (counters?.fragmentsFailed ?? 0) + (counters?.packetsTooBig ?? 0);
  for (const { name, mtu } of interfaces) {
    if (!used.has(name) || name === 'lo' || (mtu >= mtuMin && (mtu >= largest || failed === 0))) continue;
    yield {
      code: 'MTU_TOO_SMALL',
      // Path MTU discovery usually copes: a cause only where a Service is in question.
      certainty: mtu < mtuMin ? 'certain' : target.kind === 'all' ? 'note' : 'likely',
      about: name,
      evidence: [
        `${name} has MTU ${mtu}, other interfaces have up to ${largest}`,
        `${failed} packets did not fit through an interface`,
      ],
      fix: `ip link set ${name} mtu ${largest}`,
    };
  }
}

/** Fewer, or a smaller share, come from scans with forged sources, which every node with a public address sees. */
const reversePathMin = 3;
const reversePathShareMin = 0.001;

function* reversePathChecks({ sysctls, counters, interfaces = [] }: Facts): Iterable<Finding> {
  const { reversePathFilter: dropped = 0, received = 0 } = counters ?? {};
  if (dropped < reversePathMin || !sysctls) return;
  const general = Number(sysctls.get('net/ipv4/conf/all/rp_filter') ?? 0);
  const strict = interfaces.filter(
    ({ name }) => Math.max(general, Number(sysctls.get(`net/ipv4/conf/${name}/rp_filter`) ?? 0)) === 1,
  );
  if (strict.length === 0) return;
  yield {
    code: 'REVERSE_PATH_FILTER',
    certainty: dropped >= received * reversePathShareMin ? 'likely' : 'note',
    evidence: [
      `the kernel dropped ${dropped} packets by the reverse path filter (IPReversePathFilter)`,
      `rp_filter is strict on ${strict.map(({ name }) => name).join(', ')}`,
    ],
    fix: 'sysctl -w net.ipv4.conf.all.rp_filter=2',
  };
}

function* nodeAddressChecks(
  target: ExaminedTarget,
  served: readonly Frontend[],
  { nodeAddresses }: DesiredFacts,
  facts: Facts,
): Iterable<Finding> {
  const own = new Set(localAddresses(facts));
  if (!facts.interfaces) return;
  const usesNodePorts = served.some(({ address }) => address === undefined || nodeAddresses.includes(address));
  for (const address of nodeAddresses) {
    if (own.has(address) || !served.some(({ family }) => family === familyOf(address))) continue;
    yield {
      code: 'NODE_ADDRESS_MISSING',
      certainty: usesNodePorts || target.kind === 'all' ? 'certain' : 'note',
      about: address,
      evidence: [`the bundle says that this node has ${address}; its interfaces have ${[...own].join(', ')}`],
      fix: 'kubectl get nodes -o wide',
    };
  }
}

function* portChecks(target: ExaminedTarget, served: readonly Frontend[], facts: Facts): Iterable<Finding> {
  const { listeners = [], sysctls } = facts;
  const nodePorts = served.filter(({ address, kind }) => address === undefined && kind !== 'health-check');
  for (const frontend of nodePorts) {
    const listener = listeners.find(
      (one) => one.protocol === frontend.protocol && one.port === frontend.port && meetsRules(one, facts),
    );
    if (listener)
      yield {
        code: 'LISTENER_ON_NODE_PORT',
        certainty: 'likely',
        about: `${frontend.service ?? ''} ${printFrontendOf(frontend)}`.trim(),
        evidence: [`${listener.program} listens on ${listener.address}:${listener.port}/${listener.protocol}`],
        fix: `ss -Hlnp sport = :${listener.port}`,
      };
  }
  const [from = 0, to = 0] = (sysctls?.get('net/ipv4/ip_local_port_range') ?? '').split(/\s+/).map(Number);
  const reserved = sysctls?.get('net/ipv4/ip_local_reserved_ports') ?? '';
  const inside = nodePorts.filter(({ port }) => port >= from && port <= to && !isReserved(reserved, port));
  const [first] = inside;
  if (first)
    yield {
      code: 'PORT_RANGE_OVERLAPS',
      // Common, and rarely harmful: a cause only where a Service is in question.
      certainty: target.kind === 'all' ? 'note' : 'likely',
      about: printFrontendOf(first),
      evidence: [
        `net.ipv4.ip_local_port_range is ${from} to ${to}, and ${inside.map(printFrontendOf).slice(0, 3).join(', ')} ${inside.length === 1 ? 'lies' : 'lie'} within: replies to such a connection of this node may be taken for the Service's`,
      ],
      fix: `sysctl -w net.ipv4.ip_local_port_range="32768 60999"`,
    };
}

/** Where rules leave a loopback address alone, its program gets the connections. Another one than `sluiced` there has its alarm. */
function meetsRules({ address, protocol }: ListenerFacts, { desired, sluiced }: Facts): boolean {
  const own = canonicalAddress(address.replaceAll(/^\[|\]$/g, ''));
  const at = desired && own !== undefined ? atLoopback(own, protocol, desired) : undefined;
  return at !== 'left' && !(at === 'listener' && sluiced.isDaemonRunning);
}

const isReserved = (text: string, port: number): boolean =>
  text.split(',').some((part) => {
    const [from = '', to = from] = part.trim().split('-');
    return from !== '' && port >= Number(from) && port <= Number(to);
  });

/** How many ports of a bridge one finding names: a node has one for each of its pods, 110 by the kubelet's default. */
const portsNamedMax = 5;

/**
 * Where iptables sees bridged packets, the bridge itself delivers what is translated to one of its pods, and not to the port it came from
 * (`br_nf_pre_routing_finish`). Without bridge-nf such a packet is routed, and needs no hairpin mode.
 */
function hairpinChecks(
  target: ExaminedTarget,
  endpoints: EndpointAddresses,
  { routes = [], interfaces = [], sysctls }: Facts,
): readonly Finding[] {
  const seen = new Set<string>();
  for (const { to, dev, via, iif } of routes) {
    const family = familyOf(to);
    const isBridged = sysctls?.get(`net/bridge/bridge-nf-call-${family === 'ipv4' ? 'iptables' : 'ip6tables'}`) === '1';
    if (isBridged && dev !== undefined && via === undefined && iif === undefined && endpoints.has(to)) seen.add(dev);
  }
  const off = interfaces.filter(({ bridge }) => bridge && !bridge.isHairpin && seen.has(bridge.name));
  return [...Map.groupBy(off, ({ bridge }) => bridge?.name ?? '')].map(([bridge, ports]): Finding => {
    const names = ports.map(({ name }) => name);
    const [first = ''] = names;
    const shown = [...names.slice(0, portsNamedMax), ...(names.length > portsNamedMax ? ['…'] : [])].join(', ');
    const isOne = names.length === 1;
    const are = isOne ? `${first} is a port` : `${shown} are ${names.length} ports`;
    const turnOn = (port: string): string => `ip link set ${port} type bridge_slave hairpin on`;
    return {
      code: 'HAIRPIN_OFF',
      // Only pods that call themselves notice it.
      certainty: target.kind === 'all' ? 'note' : 'likely',
      about: isOne ? first : bridge,
      evidence: [`${are} of ${bridge}, which leads to endpoints, with hairpin mode off; iptables sees what is bridged`],
      fix: isOne ? turnOn(first) : `for port in /sys/class/net/${bridge}/brif/*; do ${turnOn('"${port##*/}"')}; done`,
    };
  });
}

/**
 * A reply from an endpoint to a pod on the same bridge never leaves the bridge: unless the kernel shows bridged packets to iptables, nothing
 * translates it back, and the pod drops it. Masqueraded packets are answered to the node. A bridge with one port has no second pod.
 */
function bridgeChecks(
  endpoints: EndpointAddresses,
  { routes = [], interfaces = [], sysctls }: Facts,
): readonly Finding[] {
  if (!sysctls) return [];
  const found = new Map<
    string,
    { readonly key: string; readonly value: string | undefined; readonly text: string[] }
  >();
  for (const { to, dev = '', via, iif } of routes) {
    if (via !== undefined || iif !== undefined || !endpoints.has(to)) continue;
    const ports = interfaces.filter(({ bridge }) => bridge?.name === dev);
    const key = `net/bridge/bridge-nf-call-${familyOf(to) === 'ipv4' ? 'iptables' : 'ip6tables'}`;
    const value = sysctls.get(key);
    if (ports.length < 2 || value === '1') continue;
    const one = found.get(`${dev} ${key}`) ?? { key, value, text: [] };
    found.set(`${dev} ${key}`, one);
    one.text.push(`endpoint ${to} is on bridge ${dev}, which has ${ports.length} ports`);
  }
  return [...found].map(([place, { key, value, text }]) => ({
    code: 'BRIDGE_NOT_FILTERED',
    // Whether pods reach each other through the bridge or through the node, only they know.
    certainty: 'likely',
    about: place.split(' ')[0] ?? '',
    evidence: [
      value === undefined
        ? `${key.replaceAll('/', '.')} is absent: br_netfilter is not loaded`
        : `${key.replaceAll('/', '.')} is ${value}`,
      ...text,
    ],
    fix: value === undefined ? 'modprobe br_netfilter' : `sysctl -w ${key.replaceAll('/', '.')}=1`,
  }));
}
