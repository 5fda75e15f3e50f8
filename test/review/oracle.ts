import { type BundleFiles, nodesOf, type ResolvedNode, resolveNode, valueOf } from '@sluice/bundle';
import {
  cidrContains,
  emptyProgram,
  type Family,
  type FamilyProgram,
  fillHost,
  ipvsHost,
  type IpvsState,
  linkFlat,
  type NftState,
  type Outcome,
  type Packet,
  readFrontend,
  readIpvs,
  readNft,
  trace,
  TraceError,
} from '@sluice/netfilter';
import { pick } from './mutate.ts';

/** The complete program of a node, with all files, whatever a packet needs. */
export interface WholeNode {
  readonly name: string;
  readonly address: string | undefined;
  readonly podCIDR: string | undefined;
  readonly program: FamilyProgram;
  readonly ipvs?: IpvsState;
  readonly nft?: NftState;
}

/** Every node with its whole program; undefined when a node would refuse the bundle. */
export function wholeNodes(files: BundleFiles, family: Family): readonly WholeNode[] | undefined {
  const nodes: WholeNode[] = [];
  for (const name of nodesOf(files)) {
    const node = resolveNode(files, name);
    if (!('version' in node)) return undefined;
    const rules = node.rules[family];
    const nft = node.nft && readNft(node.nft);
    if (nft && 'problems' in nft) return undefined;
    if (!rules && !(nft && node.profile.families.includes(family))) continue;
    const fact = (key: string): string | undefined => valueOf(node.nodeFile.values, family, key) as string | undefined;
    const address = fact('address');
    if (nft) {
      nodes.push({ name, address, podCIDR: fact('podCIDR'), program: emptyProgram, nft });
      continue;
    }
    if (!rules) continue;
    const own = [address ?? [], family === 'ipv4' ? '127.0.0.1' : '::1'].flat();
    const { nodePortAddresses } = node.profile;
    const host = {
      nodePortAddresses: own.filter((one) => nodePortAddresses.some((cidr) => cidrContains(cidr, one))),
    };
    const fill = (table: 'filter' | 'nat') => ({
      chains: rules[table].chains,
      rules: rules[table].rules.flatMap((rule) => fillHost(rule, host)),
    });
    const linked = linkFlat({ filter: fill('filter'), nat: fill('nat') }, family, undefined, node.profile.mode);
    const ipvs = stateOf(node, family, address);
    if (linked.problems.length > 0 || ipvs === 'refused') return undefined;
    nodes.push({ name, address, podCIDR: fact('podCIDR'), program: linked.program, ...(ipvs ? { ipvs } : {}) });
  }
  return nodes;
}

function stateOf(
  { ipvs, profile }: ResolvedNode,
  family: Family,
  address: string | undefined,
): IpvsState | 'refused' | undefined {
  if (!ipvs) return undefined;
  const own = { ipv4: [], ipv6: [], [family]: address === undefined ? [] : [address] };
  const state = readIpvs(ipvs, profile.families, ipvsHost(profile, own));
  return 'problems' in state ? 'refused' : state;
}

/** The kernel sends a packet to an address of the node itself from that very address. */
function asSent(node: WholeNode, packet: Packet): Packet {
  const isCarried = node.ipvs?.addresses[packet.family].includes(packet.destination);
  return packet.in === undefined && isCarried ? { ...packet, source: packet.destination } : packet;
}

/** The outcome of a packet, as one text; also for a client that returns to each endpoint that remembers it. */
export function behaviour(node: WholeNode, asked: Packet): string {
  const packet = asSent(node, asked);
  const world = { localAddresses: node.address === undefined ? [] : [node.address], ipvs: node.ipvs, nft: node.nft };
  const print = (outcomes: readonly Outcome[]): string =>
    outcomes
      .map((one) => `${one.verdict} ${one.to ?? ''} ${one.masquerade} ${one.probability.toFixed(7)}`)
      .toSorted()
      .join(' | ');
  try {
    const first = trace(node.program, packet, world);
    const names = [
      ...new Set(first.flatMap(({ path }) => path.flatMap(({ rule }) => / --set --name (\S+)/.exec(rule)?.[1] ?? []))),
      ...keepers(node, first),
    ];
    const again = names.map((remembers) => {
      const outcomes = trace(node.program, { ...packet, remembers }, world);
      const seconds = outcomes.flatMap(({ path }) =>
        path.flatMap(({ rule }) => / --seconds (\d+)/.exec(rule)?.[1] ?? []),
      );
      return `${print(outcomes)} ${seconds.join()}`;
    });
    return [print(first), choiceOf(node, first), ...again.toSorted()].join('\n');
  } catch (error) {
    if (error instanceof TraceError) return 'not understood';
    throw error;
  }
}

/** The endpoints that a virtual server or a frontend would remember for a client. */
function keepers({ ipvs, nft }: WholeNode, outcomes: readonly Outcome[]): readonly string[] {
  return outcomes.flatMap(({ path, to }) => {
    const isKept =
      path.some(({ chain }) => ipvs?.virtualServers.get(chain)?.persistence !== undefined) ||
      affinityIn(nft, path) !== undefined;
    return isKept && to !== undefined ? [to] : [];
  });
}

/** The time for which the frontend of a path remembers its clients. */
function affinityIn(nft: NftState | undefined, path: Outcome['path']): number | undefined {
  for (const { rule } of path) {
    const key = rule.split(' : ')[0] ?? '';
    const lines = nft?.frontends.get(key);
    if (lines) return readFrontend(key, lines).affinitySeconds;
  }
  return undefined;
}

/** The schedulers where there is a choice, and how long clients are remembered. */
function choiceOf({ ipvs, nft }: WholeNode, outcomes: readonly Outcome[]): string {
  const chosen = outcomes.filter(({ verdict }) => verdict === 'dnat');
  if (nft) {
    return chosen
      .map(({ path }) => [...(outcomes.length > 1 ? schedulersIn(path) : []), affinityIn(nft, path) ?? ''].join(' '))
      .join(' | ');
  }
  return chosen
    .flatMap(({ path }) => path.flatMap(({ chain }) => ipvs?.virtualServers.get(chain) ?? []))
    .map(({ scheduler, flags, persistence }) =>
      [...(outcomes.length > 1 ? [scheduler, ...flags] : []), persistence ?? ''].join(' '),
    )
    .join(' | ');
}

/** `goto m1009` of the verdict on a path: how its list is chosen from, whatever the number of slots. */
function schedulersIn(path: Outcome['path']): readonly string[] {
  return path.flatMap(({ chain, rule }) => {
    const [, letter = '', count = ''] = /^(?:svc|out)[46]$/.test(chain)
      ? (/: goto p?([ihm])l?(\d+)/.exec(rule) ?? [])
      : [];
    return letter === '' ? [] : [letter === 'm' ? `m${count}` : letter];
  });
}

const addressForm = {
  ipv4: /(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])/g,
  ipv6: /(?<![0-9a-f:])[0-9a-f]*:[0-9a-f:]*:[0-9a-f:]*(?![0-9a-f:])/g,
};

/** Random packets from everything that the texts of bundles name, and from a little that they do not. */
export function packetsFor(
  bundles: readonly BundleFiles[],
  family: Family,
  node: WholeNode,
  count: number,
  random: () => number,
): readonly Packet[] {
  const text = bundles.flatMap((files) => [...files.values()]).join('\n');
  const addresses = [...new Set([...text.matchAll(addressForm[family])].map(([match]) => match))].filter(isWhole);
  const ports = [
    ...new Set([...text.matchAll(/(?:--dport |:|^add \S+ | \. )(\d{2,5})\b(?!\.)/gm)].map((match) => Number(match[1]))),
  ];
  const near = addresses.map((address) => bump(address, random));
  const own = node.address === undefined ? [] : [node.address];
  return Array.from({ length: count }, (): Packet => {
    const destination = pick([...addresses, ...own, ...own], random);
    const isOwn = random() < 0.2 && own.length > 0;
    const source = isOwn ? (own[0] as string) : pick([...addresses, ...near], random);
    const packet = {
      family,
      source,
      destination,
      protocol: pick(['tcp', 'tcp', 'udp', 'sctp'] as const, random),
      port: pick(ports, random),
    };
    return isOwn ? packet : { ...packet, in: pick(['eth0', 'pod0', 'cbr0', 'cali0'], random) };
  }).filter((packet) => isPossible(packet, node));
}

/** No packet arrives from an address of the node itself: the kernel takes it for a martian. */
function isPossible({ family, source, port, in: incoming }: Packet, { address, ipvs }: WholeNode): boolean {
  const isOwn = source === address || ipvs?.addresses[family].includes(source) === true;
  const isLoopback = source.startsWith('127.') || source === '::1';
  return !isLoopback && port > 0 && port < 65_536 && !(isOwn && incoming !== undefined && ipvs !== undefined);
}

const isWhole = (text: string): boolean =>
  text.includes('.')
    ? text.split('.').every((part) => Number(part) < 256)
    : /[0-9a-f]$/.test(text) && text.split('::').length <= 2;

/** An adjacent address. */
function bump(address: string, random: () => number): string {
  return address.replace(/(\d+)$/, (last) => String((Number(last) + 1 + Math.floor(random() * 9)) % 250));
}
