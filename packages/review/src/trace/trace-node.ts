import { type BundleFiles, serviceOf } from '@sluice/bundle';
import {
  addressOfEndpoint,
  anyAddress,
  chainOf,
  type Family,
  flatName,
  hasLines,
  isSetsTool,
  isRuleError,
  namesNear,
  type Outcome,
  type Packet,
  parseAddress,
  printEndpoint,
  type Problem,
  readFrontendKey,
  readRule,
  refusal,
  type RuleHit,
  serviceKeyOf,
  serviceOfKey,
  Stopped,
  trace,
  TraceError,
} from '@sluice/netfilter';
import { factOf, nodeOf, type NodeOf } from '../bundle/node.ts';
import { relevantTo } from '../bundle/relevance.ts';
import { toolAt } from '../bundle/tools.ts';
import { type BundleView, hasFamily, viewOf } from '../bundle/view.ts';
import { type Layout, wholeProgram } from '../flows/layout.ts';
import type { NodeProgram } from '../flows/planes/plane.ts';
import { asSent, programOf } from '../flows/program.ts';
import { incomingOf } from '../flows/sources.ts';
import { frontendOf, type ServiceTarget } from './service-target.ts';

/**
 * Finds the Services that own rules and virtual servers.
 * @param paths the files that have them
 * @returns a function from a hit to a Service, `shop/web`; undefined for rules that all Services share
 */
function ownersOf(view: BundleView, family: Family, paths: readonly string[]): (hit: RuleHit) => string | undefined {
  const chains = new Map<string, string>();
  const servers: (readonly [path: string, exact: ReadonlySet<string>, ports: ReadonlySet<string>])[] = [];
  for (const path of paths) {
    const { tool } = toolAt(path);
    if (isSetsTool(tool)) continue;
    const text = view.files.get(path)!;
    if (hasLines(tool)) {
      const { exact, ports } = view.memory.matches(path, text, family);
      servers.push([path, exact, ports]);
      continue;
    }
    const file = view.memory.file(path, text);
    if (!('sections' in file)) continue;
    for (const chain of file.sections.flatMap((section) => section.chains))
      chains.set(flatName(chain), serviceOf(path));
  }
  return ({ table, chain, rule }) => {
    const keys = keysIn[table]?.(chain, rule);
    if (!keys) return ownerOfRule(rule, chains);
    const [exact, port] = keys;
    // A Service's own address takes precedence over a node port.
    const owner = servers.find(([, named]) => named.has(exact)) ?? servers.find(([, , ports]) => ports.has(port));
    return owner && serviceOf(owner[0]);
  };
}

type HitKeys = (chain: string, rule: string) => readonly [exact: string, port: string];

/** How a hit outside of the tables of iptables names its frontend, as keys of match indexes. */
const keysIn: { readonly [Table in RuleHit['table']]?: HitKeys } = { ipvs: serverKeys, nftables: elementKeys };

/** By the rule's own chain or its target; a rule that rejects or drops names its Service in its comment. */
function ownerOfRule(text: string, owners: ReadonlyMap<string, string>): string | undefined {
  const own = owners.get(flatName(chainOf(text)));
  if (own !== undefined) return own;
  const rule = readRule(text, undefined, 'program');
  if (isRuleError(rule)) return undefined;
  if (rule.target && 'chain' in rule.target) return owners.get(flatName(rule.target.chain));
  const key = serviceKeyOf(text);
  return key && serviceOfKey(key);
}

/** `serverKeys` of an element of a frontend: `10.96.0.10 . tcp . 80 : goto n2`, in `tcp4` `10.96.0.10 . 80 . 0 : 10.244.1.5 . 8080`. */
function elementKeys(set: string, element: string): readonly [exact: string, port: string] {
  const own = element.replace(/^(\S+) \. (\d+ \. \d+ : )/, `$1 . ${set.slice(0, -1)} . $2`);
  const [, key] = /^(\S+ \. (?:tcp|udp|sctp) \. \d+)(?: |$)/.exec(own) ?? [];
  if (key === undefined) return ['', ''];
  const { address, protocol, port, family } = readFrontendKey(key);
  return address === anyAddress[family] ? ['', `${protocol} ${port}`] : [`${protocol} ${address} ${port}`, ''];
}

/** The keys of `10.96.0.10:80/TCP` in match indexes: `tcp 10.96.0.10 80` and `tcp 80`. */
function serverKeys(key: string): readonly [exact: string, port: string] {
  const slash = key.lastIndexOf('/');
  const colon = key.lastIndexOf(':');
  const protocol = key.slice(slash + 1).toLowerCase();
  const port = key.slice(colon + 1, slash);
  return [`${protocol} ${addressOfEndpoint(key.slice(0, slash))} ${port}`, `${protocol} ${port}`];
}

/** A packet to trace on a node. */
export interface TraceQuestion extends PacketOrigin, Pick<Packet, 'family' | 'destination' | 'protocol' | 'port'> {}

/** A packet to the ClusterIP of a Service. */
export interface ServiceQuestion extends PacketOrigin, ServiceTarget {}

interface PacketOrigin {
  readonly node: string;
  /** An address, or `node` for the node itself. */
  readonly from: string;
  /** The incoming interface; absent: the usual one of such a source. */
  readonly in?: string;
  readonly layout: Layout;
}

/** The paths of a packet through the rules of a node. */
export interface NodeTrace {
  readonly node: string;
  readonly profile: string;
  readonly layout: Layout;
  readonly packet: Packet;
  /** Assumptions where the question is incomplete, as sentences without a full stop. */
  readonly assumed: readonly string[];
  readonly ways: readonly TracedPath[];
}

/** One outcome with the rules that lead to it, each with its Service. */
export interface TracedPath extends Omit<Outcome, 'path'> {
  readonly path: readonly {
    readonly table: string;
    readonly chain: string;
    readonly rule: string;
    /** `shop/web`; absent for rules that all Services share. */
    readonly service?: string;
  }[];
}

/**
 * Traces the first packet of a connection on one node.
 * @throws Stopped with problems, also for rules that the tracer does not understand
 */
export function traceOnNode(files: BundleFiles, asked: TraceQuestion | ServiceQuestion): NodeTrace {
  const view = viewOf(files);
  if (!view.nodes.has(asked.node)) throw new Stopped(unknownNode(asked.node, view));
  const node = nodeOf(view, asked.node);
  try {
    return answer(view, node, 'service' in asked ? questionOf(view, node, asked) : asked);
  } catch (error) {
    if (!(error instanceof TraceError)) throw error;
    const hint = 'Render the bundle again: the tracer understands the rules that `sluice render` writes';
    throw cannotTrace(node.name, error.message, hint);
  }
}

/** A question with the assumptions made for it. */
type CompleteQuestion = TraceQuestion & { readonly assumed?: readonly string[] };

function questionOf(view: BundleView, node: NodeOf, asked: ServiceQuestion): CompleteQuestion {
  const family = asked.from === 'node' ? undefined : parseAddress(asked.from)?.family;
  const { key, ...to } = frontendOf(view, node.file.profile, asked, family);
  const { node: name, from, layout } = asked;
  const assumed = [
    `the destination is the ClusterIP of ${key}, ${printEndpoint(to.destination, to.port)}/${to.protocol}`,
  ];
  return { node: name, from, layout, ...(asked.in === undefined ? {} : { in: asked.in }), ...to, assumed };
}

function answer(view: BundleView, node: NodeOf, question: CompleteQuestion): NodeTrace {
  const { family, layout, assumed = [] } = question;
  const profile = node.file.profile;
  if (!hasFamily(view, profile, family))
    throw cannotTrace(
      node.name,
      `profile ${profile} has no ${family} rules`,
      'Trace to an address of the other family',
    );
  const paths = pathsFor(view, node, question);
  const program = layout === 'tree' ? wholeProgram(view, node, family, layout) : programOf(view, node, family, paths);
  const { packet, assumed: also } = packetOf(view, node, program, question);
  const ways = tracedPaths(view, node, program, packet, paths);
  return { node: node.name, profile, layout, packet, assumed: [...assumed, ...also], ways };
}

function pathsFor(
  view: BundleView,
  node: NodeOf,
  { family, protocol, destination, port }: TraceQuestion,
): readonly string[] {
  const exact = `${protocol} ${destination} ${port}`;
  return relevantTo(exact, view.files, node.file.profile, node.profile.mode, family, view.memory);
}

interface SentPacket {
  readonly packet: Packet;
  readonly assumed: readonly string[];
}

/** The node itself sends from its own address, or from the destination if it carries that; its packets have no incoming interface. */
function packetOf(view: BundleView, node: NodeOf, program: NodeProgram, question: TraceQuestion): SentPacket {
  const { family, destination, protocol, port, from } = question;
  const to = { family, destination, protocol, port };
  const own = factOf(node, family, 'address');
  if (from === own) return { packet: { ...to, source: from }, assumed: [] };
  if (from !== 'node') {
    const incoming = question.in === undefined ? incomingOf(view, node, family, from) : undefined;
    const packet = { ...to, source: from, in: question.in ?? incoming!.name };
    return {
      packet,
      assumed: incoming === undefined ? [] : [`the packet arrives on ${incoming.name}: ${incoming.because}`],
    };
  }
  const isLoopback = destination.startsWith('127.') || destination === '::1';
  const source = isLoopback ? destination : own;
  if (source === undefined)
    throw cannotTrace(
      node.name,
      `the bundle has no ${family} address of the node`,
      'Give a source address with --from',
    );
  const packet = asSent({ ...to, source }, program);
  const isBound = packet.source !== source;
  return { packet, assumed: isBound ? [`the source is ${destination} too: the node carries this address`] : [] };
}

function tracedPaths(
  view: BundleView,
  node: NodeOf,
  program: NodeProgram,
  packet: Packet,
  paths: readonly string[],
): readonly TracedPath[] {
  const address = factOf(node, packet.family, 'address');
  const ownerOf = ownersOf(view, packet.family, paths);
  const world = { localAddresses: address === undefined ? [] : [address], ipvs: program.ipvs, nft: program.nft };
  return trace(program.rules, packet, world).map(({ path, ...rest }) => ({
    ...rest,
    path: path.map((hit) => {
      const service = ownerOf(hit);
      return { ...hit, ...(service === undefined ? {} : { service }) };
    }),
  }));
}

/** @param node of a bundle; undefined: the one that was observed */
export function cannotTrace(node: string | undefined, why: string, hint: string): Stopped {
  const message = why.startsWith('Cannot') ? why : `Cannot trace the packet: ${why}`;
  return new Stopped(refusal('RULE_REFUSED', message, hint, node === undefined ? {} : { object: `Node ${node}` }));
}

function unknownNode(name: string, view: BundleView): Problem {
  const names = [...view.nodes.keys()];
  return refusal(
    'BUNDLE_UNKNOWN_NODE',
    `Cannot trace on node ${name}: the bundle has no nodes/${name}/node.yaml`,
    names.length === 0 ? 'The bundle has no nodes' : `It has ${namesNear(name, names)}`,
  );
}
