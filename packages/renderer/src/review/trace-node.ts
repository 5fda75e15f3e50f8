import {
  type BundleFiles,
  chainOf,
  type Family,
  isRuleError,
  type Outcome,
  type Packet,
  type Problem,
  readRule,
  trace,
  TraceError,
} from '@sluice/bundle';
import { serviceOf } from './destinations.ts';
import { factOf, type NodeOf, nodeOf, programOf, ReviewStopped } from './program.ts';
import { hasFamily, type View, viewOf } from './view.ts';

/** A packet's ways through the rules of a node. */
export interface NodeTrace {
  readonly node: string;
  readonly profile: string;
  readonly packet: Packet;
  readonly ways: readonly Way[];
}

/** One outcome, with the rules that lead to it, each with the Service it belongs to. */
export interface Way extends Omit<Outcome, 'path'> {
  readonly path: readonly {
    readonly table: string;
    readonly chain: string;
    readonly rule: string;
    /** `shop/web`; absent for what all Services share. */
    readonly service?: string;
  }[];
}

/**
 * Follows the first packet of a connection on one node.
 * @param packetAt what the packet is, once it is known where it starts: `node` stands for the node's own address
 * @returns the ways, or why there is no answer: the tracer fails on what it does not understand
 */
export function traceOnNode(
  files: BundleFiles,
  name: string,
  packetAt: (address: string | undefined) => Packet,
  family: Family,
): NodeTrace | readonly Problem[] {
  const view = viewOf(files);
  if (!('index' in view)) return view;
  if (!view.nodes.has(name)) return [unknownNode(name, view)];
  const node = nodeOf(view, name);
  const profile = node.file.profile;
  if (!hasFamily(view, profile, family)) return [problem(name, `profile ${profile} has no rules of ${family}`)];
  try {
    const packet = packetAt(factOf(node, family, 'address'));
    return { node: name, profile, packet, ways: waysOf(view, node, family, packet) };
  } catch (error) {
    if (error instanceof ReviewStopped) return error.problems;
    if (error instanceof TraceError) return [problem(name, error.message)];
    throw error;
  }
}

function waysOf(view: View, node: NodeOf, family: Family, packet: Packet): readonly Way[] {
  const index = view.index(node.file.profile, family);
  const paths = index.relevant(`${packet.protocol} ${packet.destination} ${packet.port}`);
  const program = programOf(view, node, family, paths);
  const address = factOf(node, family, 'address');
  const owners = ownersOf(view, paths);
  return trace(program, packet, { localAddresses: address === undefined ? [] : [address] }).map(
    ({ path, ...rest }) => ({
      ...rest,
      path: path.map(({ table, chain, rule }) => {
        const service = ownerOf(rule, owners);
        return { table, chain, rule, ...(service === undefined ? {} : { service }) };
      }),
    }),
  );
}

/** The chains of Services, each with whose it is. */
function ownersOf(view: View, paths: readonly string[]): ReadonlyMap<string, string> {
  return new Map(
    paths.flatMap((path) => {
      const file = view.memory.file(path, view.files.get(path)!);
      if (!('sections' in file)) return [];
      return file.sections.flatMap(({ chains }) => chains.map((chain) => [chain, serviceOf(path)] as const));
    }),
  );
}

/** By the chain that a rule stands in or leads to; what turns traffic away leads nowhere and names its Service in its comment. */
function ownerOf(text: string, owners: ReadonlyMap<string, string>): string | undefined {
  const own = owners.get(chainOf(text));
  if (own !== undefined) return own;
  const rule = readRule(text);
  if (isRuleError(rule)) return undefined;
  if (rule.target && 'chain' in rule.target) return owners.get(rule.target.chain);
  const comment = rule.matches.find((match) => match.kind === 'comment')?.text ?? '';
  return /^([a-z0-9-]+\/[a-z0-9-]+)(?::\S+)? /.exec(comment)?.[1];
}

function problem(node: string, message: string): Problem {
  return {
    code: 'RULE_REFUSED',
    level: 'error',
    object: `Node ${node}`,
    message: message.startsWith('Cannot') ? message : `Cannot trace the packet: ${message}`,
    hint: 'The tracer never guesses: what it does not understand has no answer',
  };
}

function unknownNode(name: string, view: View): Problem {
  const names = [...view.nodes.keys()];
  const some = names.slice(0, 5).join(', ') + (names.length > 5 ? `, … (${names.length} in all)` : '');
  return {
    code: 'BUNDLE_UNKNOWN_NODE',
    level: 'error',
    message: `Cannot trace on node ${name}: the bundle has no nodes/${name}/node.yaml`,
    hint: names.length === 0 ? 'The bundle has no node at all' : `It has ${some}`,
  };
}
