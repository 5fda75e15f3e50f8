import { compareText, notice, type Problem, refusal, shortList } from '@sluice/netfilter';
import type { SluiceConfig, ConfigNode, LabelSelector } from '../model/config.ts';
import { fillNode } from '../layer/fill.ts';
import type { Node, PerFamily } from '../model/model.ts';
import { familyOf } from '../read/addresses.ts';
import { type ReadNode, zoneLabel } from '../read/node.ts';
import type { ReadSlice } from '../read/slice.ts';

/** The sources of nodes besides the config. */
export interface NodeSources {
  /** Node objects, by name. */
  readonly objects: ReadonlyMap<string, ReadNode>;
  /** Slices of Services in the input; others are ignored. */
  readonly slices: readonly ReadSlice[];
  /** The Node objects are complete: endpoints on other nodes are stale or invalid. */
  readonly isWhole: boolean;
}

/**
 * All nodes: Node objects, nodes of the config, and nodes that endpoints name (design: input in layers).
 * Where a Node object and the config have the same node, the object takes precedence and the config fills its gaps.
 * @param labels the labels that weights of Services name
 * @param problems receives one `NODE_UNKNOWN` for all nodes that only endpoints name
 */
export function makeNodes(
  { objects, slices, isWhole }: NodeSources,
  config: SluiceConfig,
  labels: ReadonlySet<string>,
  problems: Problem[],
): readonly Node[] {
  const known = new Map(objects);
  for (const item of config.nodes) {
    const node = nodeOfConfig(item);
    const object = objects.get(item.name);
    known.set(item.name, object ? withConfig(object, node) : node);
  }
  const endpointOnly = new EndpointOnlyNodes(slices, known);
  const unknown = [...(isWhole ? endpointOnly.all() : endpointOnly.bounded(problems))].toSorted(compareText);
  if (unknown.length > 0) problems.push(isWhole ? noSuchNodes(unknown) : unknownNodes(unknown));
  const all = [...known.values(), ...(isWhole ? [] : unknown.map(nodeOfName))];
  return all.map((node) => makeNode(node, config, labels)).toSorted((a, b) => compareText(a.name, b.name));
}

function makeNode(node: ReadNode, config: SluiceConfig, labels: ReadonlySet<string>): Node {
  const zone = node.labels.get(zoneLabel);
  const profile = config.profiles.find((candidate) => selectorMatches(candidate.nodeSelector, node.labels));
  if (!profile) throw new RangeError(`Cannot find a profile for Node ${node.name}: the last one must match every node`);
  return {
    name: node.name,
    profile: profile.name,
    ...(zone !== undefined && zone !== '' && { zone }),
    ...(labels.size > 0 && { labels: new Map([...node.labels].filter(([label]) => labels.has(label))) }),
    ...(node.cores !== undefined && { cores: node.cores }),
    address: node.address,
    podCIDR: node.podCIDR,
    ...(node.ineligible && { ineligible: node.ineligible }),
  };
}

function nodeOfConfig(node: ConfigNode): ReadNode {
  return {
    name: node.name,
    object: undefined,
    labels: new Map(Object.entries(node.labels)),
    address: firstOfEach(node.addresses),
    addresses: node.addresses,
    podCIDR: firstOfEach(node.podCIDRs),
    cores: node.cores,
  };
}

function withConfig(object: ReadNode, config: ReadNode): ReadNode {
  return { ...fillNode(object, config), labels: new Map([...config.labels, ...object.labels]) };
}

function nodeOfName(name: string): ReadNode {
  return { name, object: undefined, labels: new Map(), address: {}, addresses: [], podCIDR: {}, cores: undefined };
}

function firstOfEach(texts: readonly string[]): PerFamily<string> {
  const found: Record<string, string> = {};
  for (const text of texts) found[familyOf(text)] ??= text;
  return found;
}

const unknownNodes = (names: readonly string[]): Problem =>
  notice(
    'NODE_UNKNOWN',
    `Zone, labels, addresses and pod CIDRs of ${countOf(names)} are unknown: only endpoints name ${shortList(names)}`,
    'Add the Nodes to the input (`kubectl get nodes -o yaml`) or to `nodes` in sluice.yaml',
  );

const noSuchNodes = (names: readonly string[]): Problem =>
  notice(
    'NODE_UNKNOWN',
    `Cannot write node.yaml for ${countOf(names)}: the cluster has no such Node, only endpoints name ${shortList(names)}`,
    'Remove stale endpoints, or add the node to `nodes` in sluice.yaml',
  );

function countOf(names: readonly string[]): string {
  return names.length === 1 ? 'a node' : `${names.length} nodes`;
}

/**
 * Whether a label selector matches labels, by the API server's rules (`LabelSelectorAsSelector`): every part must match, an
 * empty selector matches everything, and `NotIn` also matches labels without the key.
 */
export function selectorMatches(selector: LabelSelector, labels: ReadonlyMap<string, string>): boolean {
  for (const [key, value] of Object.entries(selector.matchLabels ?? {})) if (labels.get(key) !== value) return false;
  for (const { key, operator, values = [] } of selector.matchExpressions ?? []) {
    const value = labels.get(key);
    const isIn = value !== undefined && values.includes(value);
    if (operator === 'In' && !isIn) return false;
    if (operator === 'NotIn' && isIn) return false;
    if (operator === 'Exists' && value === undefined) return false;
    if (operator === 'DoesNotExist' && value !== undefined) return false;
  }
  return true;
}

/** The most nodes that only endpoints name: four times the size of cluster that Kubernetes supports. */
export const endpointOnlyNodesMax = 20_000;

/** A Service whose endpoints name such nodes. */
interface NamingService {
  /** The first of its slices that names one. */
  readonly slice: ReadSlice;
  readonly names: Set<string>;
}

/** Nodes that only endpoints name, by Service. */
class EndpointOnlyNodes {
  readonly #namers = new Map<string, NamingService>();

  constructor(slices: readonly ReadSlice[], known: ReadonlyMap<string, unknown>) {
    for (const slice of slices)
      for (const part of slice.parts)
        for (const { nodeName } of part.endpoints)
          if (nodeName !== undefined && !known.has(nodeName)) this.#add(slice, nodeName);
  }

  #add(slice: ReadSlice, name: string): void {
    const namer = this.#namers.get(slice.service);
    if (namer === undefined) this.#namers.set(slice.service, { slice, names: new Set([name]) });
    else namer.names.add(name);
  }

  all(): ReadonlySet<string> {
    return new Set([...this.#namers.values()].flatMap(({ names }) => [...names]));
  }

  /**
   * The names within the limit. Services with few names come first, so that the limit hits a Service with invented names.
   * @param problems receives `INPUT_TOO_LARGE` for each Service beyond the limit
   */
  bounded(problems: Problem[]): ReadonlySet<string> {
    const found = new Set<string>();
    const byCount = [...this.#namers].toSorted(
      ([a, { names: of }], [b, { names }]) => of.size - names.size || compareText(a, b),
    );
    for (const [service, { slice, names }] of byCount) {
      const more = [...names].filter((name) => !found.has(name));
      if (found.size + more.length > endpointOnlyNodesMax) problems.push(tooMany(service, slice, names.size));
      else for (const name of more) found.add(name);
    }
    return found;
  }
}

const tooMany = (service: string, slice: ReadSlice, count: number): Problem =>
  refusal(
    'INPUT_TOO_LARGE',
    `Cannot use ${count} node names in endpoints of Service ${service}: with them, more than ${endpointOnlyNodesMax} nodes have no Node object`,
    'Add the Nodes to the input (`kubectl get nodes -o yaml`), or correct the nodeName of the endpoints',
    { at: slice.object.origin.place([]), object: `${slice.kind} ${slice.key}` },
  );
