import {
  type MissingPart,
  type NotCovered,
  type Observation,
  type ObservationPart,
  partOf,
  rulesIn,
} from '@sluice/bundle';
import { families as allFamilies, type Family, type Mode, parseAddress } from '@sluice/netfilter';
import { factOf, nodeOf } from '../bundle/node.ts';
import type { BundleView } from '../bundle/view.ts';

/** The modes whose rules or servers an observation has, in the order of preference. */
export function observedModes({ rules, servers, nftTables }: Observation): readonly Mode[] {
  const hasChains = rules.some(({ lines }) =>
    lines.some((line) => /^:(?:KUBE-SVC-|KUBE-SEP-|SLUICE-SERVICES )/.test(line)),
  );
  const hasTable = nftTables.some(({ name }) => name === 'kube-proxy' || name === 'sluice');
  return [
    ...(servers.length > 0 ? (['ipvs'] as const) : []),
    ...(hasTable ? (['nftables'] as const) : []),
    ...(hasChains || (servers.length === 0 && !hasTable) ? (['iptables'] as const) : []),
  ];
}

/**
 * The parts that were not read and without which nothing is known of Services in a family: no comparison, and no trace, may take their
 * absence for that of rules. Mode ipvs needs servers, sets, addresses and rules; the other modes the store that has the rules.
 * @returns none: the rules of a proxy were read
 */
export function unreadParts(seen: Observation, family: Family): readonly MissingPart[] {
  const isMissing = (...names: readonly ObservationPart[]): readonly MissingPart[] =>
    seen.missing.filter(({ part }) => names.includes(part));
  const stores = (['nft', 'legacy'] as const).flatMap((store) => rulesIn(seen, store, family)?.lines ?? []);
  const rules = [partOf('nft', family), partOf('legacy', family)];
  const isServed = stores.some((line) => /^:(?:KUBE-SERVICES|SLUICE-SERVICES) /.test(line));
  if (usesIpvs(seen)) {
    const parts = ['servers', 'sets', 'addresses'] as const;
    return isMissing(...parts, ...(isServed ? [] : rules));
  }
  const hasTable = seen.nftTables.some(({ name }) => name === 'kube-proxy' || name === 'sluice');
  return isServed || hasTable ? [] : isMissing(...rules, 'nft-tables', 'servers');
}

const usesIpvs = ({ servers, serverAddresses: { ipv4, ipv6 }, rules }: Observation): boolean =>
  servers.length > 0 ||
  ipv4.length + ipv6.length > 0 ||
  rules.some(({ lines }) => lines.some((line) => line.includes('--match-set KUBE-')));

/**
 * Parts of an observation that are missing, or those of another node, and whether a comparison needs them.
 * @param hasNodePorts whether either side has a frontend at each address of the node
 */
export function missingParts(
  seen: Observation,
  view: BundleView,
  name: string,
  hasNodePorts: boolean,
): readonly NotCovered[] {
  const { families } = nodeOf(view, name).profile;
  // What is read of a family that the bundle lacks may be served, where the node has it: its rules would go with those of the proxy.
  const isServed = (family: Family): boolean => families.includes(family) || hasGlobalAddress(seen, family);
  const needed = new Set(families.flatMap((family) => unreadParts(seen, family)).map(({ part }) => part));
  const missing = seen.missing.map(({ part, why }) => {
    const isRules = part.startsWith('rules-');
    const matters = isRules
      ? allFamilies.some((family) => part.endsWith(family) && isServed(family))
      : part === 'nft-tables' ||
        (part === 'addresses' && hasNodePorts) ||
        ((part === 'servers' || part === 'addresses') && usesIpvs(seen));
    return { what: part, why, cases: 0, matters: matters || needed.has(part) };
  });
  return [
    ...missing,
    ...serversOfMarks(seen),
    ...allFamilies.flatMap((family) => otherNode(seen, view, name, family, hasNodePorts)),
  ];
}

/** Virtual servers of other programs for packets with a mark, at any address: where one is, no frontend is certain. */
const serversOfMarks = ({ servers }: Observation): readonly NotCovered[] =>
  servers.flatMap((line) => {
    const [, mark] = /^-A -f (\d+)(?: |$)/.exec(line) ?? [];
    if (mark === undefined) return [];
    const why = 'which packets have this mark is not followed';
    return [{ what: `virtual server of firewall mark ${mark}`, why, cases: 0, matters: true }];
  });

/** Whether an interface has an address that packets from elsewhere can have, link-local ones aside. */
const hasGlobalAddress = ({ interfaces }: Observation, family: Family): boolean =>
  interfaces.some((line) => {
    const [name, network = ''] = line.split(' ');
    const address = parseAddress(network.split('/')[0] ?? '');
    return name !== 'lo' && address?.family === family && !/^(?:fe[89ab][0-9a-f]:|169\.254\.)/.test(address.text);
  });

/** The address of the node, where no interface has it: another node's may have one, as rules alone do not tell nodes apart. */
function otherNode(
  { interfaces, host }: Observation,
  view: BundleView,
  name: string,
  family: Family,
  hasNodePorts: boolean,
): readonly NotCovered[] {
  const bound = new Set(interfaces.map((line) => parseAddress(line.split(' ')[1]?.split('/')[0] ?? '')?.text));
  const addressOf = (node: string): string | undefined => factOf(nodeOf(view, node), family, 'address');
  const own = addressOf(name);
  if (own === undefined || bound.has(own)) return [];
  const other = [...view.nodes.keys()].find((node) => bound.has(addressOf(node) ?? ''));
  // Without its own address node ports are asked of another one: a file that was cut may lack it.
  const isCut = hasNodePorts && host === undefined && interfaces.some((line) => !line.startsWith('lo '));
  if (other === undefined && !isCut) return [];
  const ofNone = 'no interface that was observed has it: save `ip addr` of all interfaces';
  if (other === undefined) return [{ what: `address ${own} of node ${name}`, why: ofNone, cases: 0, matters: true }];
  const why = `no interface that was observed has it, and one has that of node ${other}: is this of ${other}?`;
  return [{ what: `address ${own} of node ${name}`, why, cases: 0, matters: true }];
}
