import {
  cidrContains,
  compareText,
  type Family,
  type Guard,
  guardHolds,
  isInCidr,
  parseAddress,
  parseCidr,
  type RuleFile,
  type VirtualFile,
} from '@sluice/bundle';
import type { Distinctions } from './distinctions.ts';
import type { NodeGroup } from './flow.ts';
import { factOf, nodeOf, type NodeOf, ReviewStopped, scopeOf } from './node.ts';
import { toolAt } from './tools.ts';
import type { BundleView } from './view.ts';
import { virtualAt } from './virtual/state.ts';

/** Some Service files of one bundle. */
export interface Slice {
  readonly view: BundleView;
  readonly paths: readonly string[];
}

/**
 * Divides the nodes of a profile into groups that the files treat equally: the same guards hold, and the nodes' own addresses are in
 * the same networks that rules name. Nodes of a group differ in their addresses only.
 * @param slices the files of one bundle, or of both that are compared; each must have all nodes
 * @param apart further distinctions between nodes
 */
export function groupNodes(
  names: readonly string[],
  profile: string,
  family: Family,
  slices: readonly Slice[],
  apart?: Distinctions,
): readonly NodeGroup[] {
  // Nothing to divide; problems of the files are reported when they are linked.
  if (names.length === 1) return [{ profile, nodes: names }];
  const questions = slices.map((slice) => questionsOf(slice));
  const groups = Map.groupBy(names, (name) =>
    [
      ...slices.map(({ view }, at) => answersOf(nodeOf(view, name), family, questions[at]!)),
      apart?.answerOf(nodeOf(slices.at(-1)!.view, name)),
    ].join('\n'),
  );
  return [...groups.values()].map((nodes) => ({ profile, nodes: nodes.toSorted(compareText) }));
}

/** The guards and networks by which nodes are distinguished. */
interface Questions {
  readonly guards: readonly Exclude<Guard, { kind: 'local' }>[];
  /** Networks that rules name, without those of endpoints, whose node makes no difference. */
  readonly networks: readonly string[];
}

function questionsOf({ view, paths }: Slice): Questions {
  const guards = new Map<string, Exclude<Guard, { kind: 'local' }>>();
  const networks = new Set<string>();
  for (const path of paths) {
    const { guards: own, networks: named } = questionsAt(view, path);
    for (const [key, guard] of own) guards.set(key, guard);
    for (const network of named) networks.add(network);
  }
  return { guards: [...guards.values()], networks: [...networks] };
}

interface FileQuestions {
  readonly guards: ReadonlyMap<string, Exclude<Guard, { kind: 'local' }>>;
  readonly networks: ReadonlySet<string>;
}

const asked = new WeakMap<RuleFile | VirtualFile, FileQuestions>();

function questionsAt(view: BundleView, path: string): FileQuestions {
  const { tool } = toolAt(path);
  const file = tool === 'ipset' || tool === 'ipvs' ? virtualAt(view, path) : fileOf(view, path);
  const done = asked.get(file);
  if (done) return done;
  const questions = 'sections' in file ? questionsOfRules(file) : questionsOfLines(file);
  asked.set(file, questions);
  return questions;
}

/** The node of an endpoint makes no difference. An address that nodes carry is treated as one that a node has itself. */
function questionsOfLines({ lines }: VirtualFile): FileQuestions {
  const guards = new Map<string, Exclude<Guard, { kind: 'local' }>>();
  const networks = new Set<string>();
  for (const { guard, text } of lines) {
    if (guard && guard.kind !== 'local') guards.set(JSON.stringify(guard), guard);
    const [verb, set, entry = ''] = text.split(' ');
    if (verb !== 'add' || entry.includes('${')) continue;
    const [first = '', , third = ''] = entry.split(',');
    if (set?.endsWith('-IPVS-IPS')) networks.add(first);
    else if (third !== first && third !== '') networks.add(third);
  }
  return { guards, networks };
}

function questionsOfRules(file: RuleFile): FileQuestions {
  const guards = new Map<string, Exclude<Guard, { kind: 'local' }>>();
  const networks = new Set<string>();
  const targets = new Set<string>();
  for (const { guard, text } of file.sections.flatMap(({ rules }) => rules)) {
    if (guard && guard.kind !== 'local') guards.set(JSON.stringify(guard), guard);
    const bare = text.replaceAll(/"[^"]*"/g, '""');
    for (const [, network] of bare.matchAll(/ -[sd] ([0-9a-f.:/]+)/g) as Iterable<[string, string]>)
      networks.add(network);
    const target = / --to-destination \[?([0-9a-f.:]+?)\]?:\d+$/.exec(bare)?.[1];
    if (target !== undefined) targets.add(target);
  }
  return { guards, networks: new Set([...networks].filter((network) => !targets.has(network))) };
}

function fileOf(view: BundleView, path: string): RuleFile {
  const file = view.memory.file(path, view.files.get(path)!);
  if ('sections' in file) return file;
  throw new ReviewStopped(file);
}

/** The signature of a node: nodes with equal signatures are treated equally. */
function answersOf(node: NodeOf, family: Family, { guards, networks }: Questions): string {
  const scope = scopeOf(node, family);
  const address = factOf(node, family, 'address');
  const pods = factOf(node, family, 'podCIDR');
  const held = guards.map((guard) => (guardHolds(guard, scope) ? '1' : '0')).join('');
  const placed = networks.map((network) => relation(network, address, pods)).join('');
  const known = `${address === undefined ? '-' : 'a'}${pods === undefined ? '-' : 'p'}`;
  return `${known} ${isOpen(node, address)} ${held} ${placed}`;
}

/** The relation of a network to a node's own address and pods. */
function relation(network: string, address: string | undefined, pods: string | undefined): string {
  if (!network.includes('/')) {
    if (network === address) return 'n';
    return pods !== undefined && cidrContains(pods, network) ? 'p' : '.';
  }
  const cidr = parseCidr(network);
  const podCIDR = parseCidr(pods ?? '');
  const first = podCIDR && parseAddress(podCIDR.text.slice(0, podCIDR.text.indexOf('/')));
  const own = cidr && parseAddress(address ?? '');
  const inside = cidr && first && isInCidr(first, cidr) && cidr.prefix <= podCIDR.prefix;
  const within = cidr && podCIDR && !inside && cidrContains(podCIDR.text, cidr.text.slice(0, cidr.text.indexOf('/')));
  return `${own && isInCidr(own, cidr) ? 'n' : '.'}${inside ? 'P' : within ? 'p' : '.'}`;
}

/** Whether the profile's nodePortAddresses include the node's address. */
function isOpen({ profile }: NodeOf, address: string | undefined): boolean {
  return address !== undefined && profile.nodePortAddresses.some((cidr) => cidrContains(cidr, address));
}
