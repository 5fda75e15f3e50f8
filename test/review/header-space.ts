import type { BundleFiles } from '@sluice/bundle';
import {
  anyAddress,
  cidrContains,
  type Family,
  isLoopback,
  type NftFrontend,
  type Packet,
  parseAddress,
  readFrontend,
  tableOptions,
} from '@sluice/netfilter';
import { boundaries } from './networks.ts';
import { behaviour, type WholeNode, wholeNodes } from './oracle.ts';

/** A packet that two bundles treat differently, in words. */
export type Difference = string;

const families = ['ipv4', 'ipv6'] as const;

/** Compares a bundle of one node of mode nftables with others of it, packet by packet over the whole header space of both. */
export class HeaderSpaceJudge {
  readonly #before: Readonly<Record<Family, WholeNode | undefined>>;
  readonly #behaviours = new Map<string, string>();

  constructor(files: BundleFiles) {
    this.#before = { ipv4: wholeNodes(files, 'ipv4')?.[0], ipv6: wholeNodes(files, 'ipv6')?.[0] };
  }

  /** @returns the first packet that is treated differently; undefined if there is none; `refused` if the node would refuse the bundle */
  difference(files: BundleFiles): Difference | undefined {
    for (const family of families) {
      const before = this.#before[family];
      const nodes = wholeNodes(files, family);
      if (!nodes) return 'refused';
      const [after] = nodes;
      if (!before || !after) continue;
      for (const packet of headerSpace(before, after, family)) {
        const [was, is] = [this.#behaviour(before, packet), behaviour(after, packet)];
        if (was !== is) return `${JSON.stringify(packet)}: ${was} → ${is}`;
      }
    }
    return undefined;
  }

  /** Whether both bundles treat a packet differently. */
  tells(files: BundleFiles, packet: Packet): boolean {
    const [before, after] = [this.#before[packet.family], wholeNodes(files, packet.family)?.[0]];
    return !before || !after || this.#behaviour(before, packet) !== behaviour(after, packet);
  }

  #behaviour(node: WholeNode, packet: Packet): string {
    const { family, source, in: incoming = '', destination, protocol, port } = packet;
    const key = `${family} ${source} ${incoming} ${destination} ${protocol} ${port}`;
    const known = this.#behaviours.get(key) ?? behaviour(node, packet);
    this.#behaviours.set(key, known);
    return known;
  }
}

/** The header space of two bundles of one node, in both families. */
export function packetsOf(before: BundleFiles, after: BundleFiles): readonly Packet[] {
  return families.flatMap((family) => {
    const [old, fresh] = [before, after].map((files) => wholeNodes(files, family)?.[0]);
    return old && fresh ? [...headerSpace(old, fresh, family)] : [];
  });
}

/**
 * One packet of each kind that one of two tables of a node can tell apart from others. Both have finitely many keys, and between two ends
 * of networks all addresses are in the same networks: the list is complete, whatever the tables do.
 */
export function* headerSpace(before: WholeNode, after: WholeNode, family: Family): Generator<Packet> {
  const named = [before, after].map((node) => namedIn(node, family));
  const frontends = named.flatMap((one) => one.frontends);
  const { address: own } = before;
  const sources = sourcesOf(
    before,
    named.flatMap((one) => one.sources),
    family,
  );
  const addresses = [
    ...frontends.flatMap(({ address }) => (address === anyAddress[family] ? [] : [address])),
    ...boundaries(named.flatMap((one) => one.destinations)),
    ...(own === undefined ? [] : [own]),
    elsewhere[family],
  ];
  for (const destination of new Set(addresses)) {
    for (const { protocol, port } of portsAt(destination, frontends, own === destination)) {
      for (const source of sources) yield { family, ...source, destination, protocol, port };
    }
  }
}

/** An address that nothing names, and a port. */
const elsewhere = { ipv4: '233.252.0.9', ipv6: '2001:db8:eeee::9' } as const;
const unusedPort = 9;

type PortKey = Pick<Packet, 'protocol' | 'port'>;

function portsAt(address: string, frontends: readonly NftFrontend[], isOwn: boolean): readonly PortKey[] {
  const isHere = (one: NftFrontend): boolean =>
    one.address === address || (isOwn && one.address === anyAddress[one.family]);
  const named = frontends.filter(isHere).map(({ protocol, port }): PortKey => ({ protocol, port }));
  const unused = (['tcp', 'udp', 'sctp'] as const).map((protocol): PortKey => ({ protocol, port: unusedPort }));
  return [...new Map([...named, ...unused].map((one) => [`${one.protocol} ${one.port}`, one])).values()];
}

function sourcesOf(
  { address: own, podCIDR, nft }: WholeNode,
  networks: readonly string[],
  family: Family,
): readonly Pick<Packet, 'source' | 'in'>[] {
  const { detector } = tableOptions(nft!.settings);
  const pods = detector === 'address' ? 'pod0' : detector.interface.replace('*', '0');
  const edges = boundaries([...networks, elsewhere[family], ...(podCIDR === undefined ? [] : [podCIDR])]);
  const arriving = edges.filter((address) => address !== own && !isLoopback(parseAddress(address)!));
  return [
    ...(own === undefined ? [] : [{ source: own }]),
    ...arriving.map((source) => ({
      source,
      in: podCIDR !== undefined && cidrContains(podCIDR, source) ? pods : 'eth0',
    })),
  ];
}

interface Named {
  readonly frontends: readonly NftFrontend[];
  /** Networks by which sources are told apart. */
  readonly sources: readonly string[];
  /** And destinations, besides frontends. */
  readonly destinations: readonly string[];
}

function namedIn({ nft }: WholeNode, family: Family): Named {
  const frontends = [...nft!.frontends].map(([key, lines]) => readFrontend(key, lines));
  const own = frontends.filter((one) => one.family === family);
  const settings = (form: RegExp): readonly string[] =>
    nft!.settings.flatMap((setting) => {
      const [kind = '', network = ''] = setting.split(' ');
      return form.test(kind) && network.includes(':') === (family === 'ipv6') ? [network] : [];
    });
  const endpoints = own.flatMap((one) => [...one.endpoints, ...one.local].map((text) => text.split(' ')[0]!));
  return {
    frontends: own,
    sources: [...settings(/^(?:pods|keep)$/), ...own.flatMap(({ ranges }) => ranges), ...new Set(endpoints)],
    destinations: settings(/^(?:node|cidr)$/),
  };
}
