import {
  addressOfEndpoint,
  cidrContains,
  compareText,
  destinationOf,
  type Family,
  hasLines,
  isInCidr,
  parseAddress,
  parseCidr,
  perObject,
  readFrontendKey,
  readNftLine,
} from '@sluice/netfilter';
import { type Guard, guardHolds, type RuleFile, type VirtualFile } from '@sluice/bundle';
import { readEntry } from '../bundle/lines.ts';
import type { NodeGroup } from './flow.ts';
import { factOf, nodeOf, type NodeOf, scopeOf } from '../bundle/node.ts';
import { toolAt } from '../bundle/tools.ts';
import { type OwnNodes, ownNodesAt, type Slice } from './own-nodes.ts';
import type { BundleView } from '../bundle/view.ts';
import { rulesAt, virtualAt } from '../bundle/files.ts';

/**
 * Nodes and sources that have to be traced separately because Services declare different results for them. Rules alone do not show
 * that: a wrong bundle may lack the rule that should distinguish them, and one sample for all would miss it.
 */
export interface Distinctions {
  readonly networks: readonly string[];
  /** Nodes with different signatures are traced separately. */
  readonly signatureOf: (node: NodeOf) => string;
  /** In mode nftables: the own nodes of endpoints. */
  readonly ownNodes?: OwnNodes;
}

/**
 * Divides the nodes of a profile into groups that the files treat equally: the same guards hold, and the nodes' own addresses are in
 * the same networks that rules name. Nodes of a group differ in their addresses only.
 * @param slices the files of one bundle, or of both that are compared; each must have all nodes
 * @param distinctions further distinctions between nodes
 */
export function groupNodes(
  names: readonly string[],
  profile: string,
  family: Family,
  slices: readonly Slice[],
  distinctions?: Distinctions,
): readonly NodeGroup[] {
  // Nothing to divide; problems of the files are reported when they are linked.
  if (names.length === 1) return [{ profile, nodes: names }];
  const criteria = slices.map((slice) => criteriaOf(slice));
  const groups = Map.groupBy(names, (name) =>
    [
      ...slices.map(({ view }, at) => signatureOf(nodeOf(view, name), family, criteria[at]!)),
      distinctions?.signatureOf(nodeOf(slices.at(-1)!.view, name)),
    ].join('\n'),
  );
  return [...groups.values()].map((nodes) => ({ profile, nodes: nodes.toSorted(compareText) }));
}

/** The guards and networks by which nodes are distinguished. */
interface NodeCriteria {
  readonly guards: readonly Exclude<Guard, { kind: 'local' }>[];
  /** Networks that rules name, without those of endpoints, whose node makes no difference. */
  readonly networks: readonly string[];
}

function criteriaOf({ view, paths }: Slice): NodeCriteria {
  const guards = new Map<string, Exclude<Guard, { kind: 'local' }>>();
  const networks = new Set<string>();
  for (const path of paths) {
    const { guards: own, networks: named } = criteriaAt(view, path);
    for (const [key, guard] of own) guards.set(key, guard);
    for (const network of named) networks.add(network);
  }
  return { guards: [...guards.values()], networks: [...networks] };
}

interface FileCriteria {
  readonly guards: ReadonlyMap<string, Exclude<Guard, { kind: 'local' }>>;
  readonly networks: ReadonlySet<string>;
}

function criteriaAt(view: BundleView, path: string): FileCriteria {
  const { tool } = toolAt(path);
  return criteriaOfFile(hasLines(tool) ? virtualAt(view, path) : rulesAt(view, path));
}

const criteriaOfFile = perObject(
  (file: RuleFile | VirtualFile): FileCriteria => ('sections' in file ? criteriaOfRules(file) : criteriaOfLines(file)),
);

/** The node of an endpoint makes no difference. An address that nodes carry is treated as one that a node has itself. */
function criteriaOfLines({ tool, lines }: VirtualFile): FileCriteria {
  const guards = new Map<string, Exclude<Guard, { kind: 'local' }>>();
  const networks = new Set<string>();
  for (const line of lines) {
    const { guard, text } = line;
    const isOfOwnNode = ownNodesAt(line).length > 0;
    if (guard && guard.kind !== 'local' && !isOfOwnNode) guards.set(JSON.stringify(guard), guard);
    for (const network of networksIn[tool](text)) networks.add(network);
  }
  return { guards, networks };
}

/** The networks that a line distinguishes, by the tool of its file. */
const networksIn = {
  ipset: networksInEntry,
  ipvs: networksInEntry,
  nft: networksInElements,
} as const satisfies Record<VirtualFile['tool'], (text: string) => readonly string[]>;

function networksInEntry(text: string): readonly string[] {
  const [verb, set, entry = ''] = text.split(' ');
  if (verb !== 'add' || entry.includes('${')) return [];
  const { first, source } = readEntry(entry);
  if (set?.endsWith('-IPVS-IPS')) return [first];
  return source === first || source === '' ? [] : [source];
}

/** The addresses and source ranges of frontends in a line of an `.nft` file. */
function networksInElements(text: string): readonly string[] {
  const read = readNftLine(text);
  if ('error' in read) return [];
  return read.elements.flatMap((element) => {
    if (!('key' in element)) return [];
    return [readFrontendKey(element.key).address, ...(element.kind === 'allow' ? [element.range] : [])];
  });
}

function criteriaOfRules(file: RuleFile): FileCriteria {
  const guards = new Map<string, Exclude<Guard, { kind: 'local' }>>();
  const networks = new Set<string>();
  const targets = new Set<string>();
  for (const { guard, text } of file.sections.flatMap(({ rules }) => rules)) {
    if (guard && guard.kind !== 'local') guards.set(JSON.stringify(guard), guard);
    const bare = text.replaceAll(/"[^"]*"/g, '""');
    for (const [, network] of bare.matchAll(/ -[sd] ([0-9a-f.:/]+)/g) as Iterable<[string, string]>)
      networks.add(network);
    const target = destinationOf(bare);
    if (target !== undefined) targets.add(addressOfEndpoint(target));
  }
  return { guards, networks: new Set([...networks].filter((network) => !targets.has(network))) };
}

/** The signature of a node: nodes with equal signatures are treated equally. */
function signatureOf(node: NodeOf, family: Family, { guards, networks }: NodeCriteria): string {
  const scope = scopeOf(node, family);
  const address = factOf(node, family, 'address');
  const pods = factOf(node, family, 'podCIDR');
  const guarded = guards.map((guard) => (guardHolds(guard, scope) ? '1' : '0')).join('');
  const placed = networks.map((network) => relation(network, address, pods)).join('');
  const known = `${address === undefined ? '-' : 'a'}${pods === undefined ? '-' : 'p'}`;
  return `${known} ${isOpen(node, address)} ${guarded} ${placed}`;
}

/** The relation of a network to a node's own address and pods. */
function relation(network: string, address: string | undefined, pods: string | undefined): string {
  if (!network.includes('/')) {
    if (network === address) return 'n';
    return pods !== undefined && cidrContains(pods, network) ? 'p' : '.';
  }
  const cidr = parseCidr(network);
  const podCIDR = parseCidr(pods ?? '');
  const own = cidr && parseAddress(address ?? '');
  const inside = cidr && podCIDR && isInCidr(podCIDR, cidr) && cidr.prefix <= podCIDR.prefix;
  const within = cidr && podCIDR && !inside && isInCidr(cidr, podCIDR);
  return `${own && isInCidr(own, cidr) ? 'n' : '.'}${inside ? 'P' : within ? 'p' : '.'}`;
}

/** Whether the profile's nodePortAddresses include the node's address. */
function isOpen({ profile }: NodeOf, address: string | undefined): boolean {
  return address !== undefined && profile.nodePortAddresses.some((cidr) => cidrContains(cidr, address));
}
