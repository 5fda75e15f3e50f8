import { type Observation, rulesIn } from '@sluice/bundle';
import {
  type Address,
  type Cidr,
  compareText,
  type Family,
  type IpvsState,
  isInCidr,
  LiveTables,
  networkOf,
  parseAddress,
  parseCidr,
  readIptables,
  readLiveSets,
  readLiveTable,
  readServers,
} from '@sluice/netfilter';

/** An observed node in one family: what forwards its packets, and where they arrive and leave. */
export interface ObservedNode {
  readonly tables: LiveTables;
  /** Of other programs: rules that translate sources after routing. They stay when Services move, so both sides have them. */
  readonly foreignSourceNat: LiveTables;
  readonly ipvs: IpvsState | undefined;
  /** Virtual servers that are not read. */
  readonly unreadServers: readonly string[];
  readonly addresses: readonly string[];
  /** Names of interfaces with an address or a route; none: they were not observed. */
  readonly interfaces: readonly string[];
  /** The interface towards an address; undefined: the routes are not known. */
  readonly interfaceTo: (address: Address) => string | undefined;
  /** Whether packets from loopback addresses may leave by another interface, as node ports on localhost need; undefined: not known. */
  readonly routesLoopback: boolean | undefined;
}

/** Reads an observation for a family. @param known addresses of the node, used where the observation has none */
export function observedNode(seen: Observation, family: Family, known: readonly string[]): ObservedNode {
  const sets = readLiveSets(seen.sets);
  const stores = (['nft', 'legacy'] as const).flatMap((store) => {
    const rules = rulesIn(seen, store, family);
    return rules ? readIptables(rules, sets) : [];
  });
  const tables = [
    ...stores,
    ...seen.nftTables.flatMap((table) =>
      table.family === 'inet' || table.family === (family === 'ipv4' ? 'ip' : 'ip6') ? [readLiveTable(table)] : [],
    ),
  ];
  const { servers, foreign } = readServers(seen.servers);
  const own = [...servers].filter(([, server]) => server.family === family);
  const bound = seen.serverAddresses;
  const localnet = ['all', 'default'].map((name) => seen.sysctls[localnetKey(name)]);
  const interfaces = seen.interfaces.flatMap((line) => {
    const address = parseAddress(line.split(' ')[1]?.split('/')[0] ?? '');
    return address?.family === family ? [address.text] : [];
  });
  const hasServers = own.length > 0 || bound[family].length > 0;
  return {
    tables: new LiveTables(family, tables),
    foreignSourceNat: new LiveTables(family, tables).foreignSourceNat(),
    ipvs: hasServers ? { virtualServers: new Map(own), sets: new Map(), addresses: bound } : undefined,
    unreadServers: [...foreign],
    addresses: [...new Set([...interfaces, ...known])],
    interfaces: interfacesIn(seen),
    interfaceTo: routesOf(seen.routes, family),
    routesLoopback: localnet.every((value) => value === undefined)
      ? undefined
      : localnet.some((value) => value !== undefined && value !== '0'),
  };
}

/** A node without the addresses of its interfaces may have any. */
function interfacesIn({ interfaces, routes, missing }: Observation): readonly string[] {
  if (interfaces.length === 0 || missing.some(({ part }) => part === 'addresses')) return [];
  const names = [
    ...interfaces.flatMap((line) => line.split(' ').slice(0, 1)),
    ...routes.flatMap((line) => / dev (\S+)/.exec(` ${line}`)?.[1] ?? []),
  ];
  return [...new Set(names)].filter((name) => name !== 'lo').toSorted(compareText);
}

const localnetKey = (name: string): string => `net.ipv4.conf.${name}.route_localnet`;

interface Route {
  readonly network: Cidr;
  readonly dev: string;
}

const kinds: ReadonlySet<string> = new Set([
  'unicast',
  'local',
  'broadcast',
  'anycast',
  'multicast',
  'blackhole',
  'unreachable',
  'prohibit',
  'throw',
  'nat',
]);

/**
 * The interface towards an address, by the longest prefix of all tables but `local`. Rules of policy routing are not followed.
 * @param lines of `ip route show table all`, of both families
 */
function routesOf(lines: readonly string[], family: Family): (address: Address) => string | undefined {
  const routes = lines.flatMap((line): Route[] => {
    const words = line.split(' ');
    const to = kinds.has(words[0] ?? '') ? words.slice(1) : words;
    const dev = to[to.indexOf('dev') + 1] ?? '';
    if (to !== words || dev === '' || !to.includes('dev')) return [];
    const via = to[to.indexOf('via') + 1] ?? '';
    const isSix = (to[0] ?? '').includes(':') || (to.includes('via') && via.includes(':'));
    const whole = family === 'ipv4' ? '0.0.0.0/0' : '::/0';
    if (to[0] === 'default' && isSix !== (family === 'ipv6') && to.includes('via')) return [];
    const network = to[0] === 'default' ? parseCidr(whole) : networkOf(to[0] ?? '');
    return network?.family === family ? [{ network, dev }] : [];
  });
  const sorted = routes.toSorted((a, b) => b.network.prefix - a.network.prefix);
  const exact = new Map<string, string>();
  const wide: Route[] = [];
  for (const route of sorted) {
    const { network, dev } = route;
    if (network.prefix === network.words.length * 16) exact.set(network.text.slice(0, network.text.indexOf('/')), dev);
    else wide.push(route);
  }
  return (address) => exact.get(address.text) ?? wide.find(({ network }) => isInCidr(address, network))?.dev;
}
