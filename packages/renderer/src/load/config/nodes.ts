import { compareText, parseAddress, parseCidr, type Problem } from '@sluice/netfilter';
import type { ConfigNode } from '../../render/model/config.ts';
import { configProblem } from './problems.ts';
import { entriesOf, isWrong, type SluiceText, sluiceObject } from './sluice.ts';

/** An entry of `nodes` that passed the schema. */
interface NodeText {
  readonly name: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly addresses?: readonly string[];
  readonly podCIDRs?: readonly string[];
  readonly cores?: number;
}

/** Reads the nodes of sluice.yaml, sorted by name, with canonical addresses. Invalid entries are left out. */
export function readNodes(sluice: SluiceText): { nodes: readonly ConfigNode[]; problems: readonly Problem[] } {
  const problems: Problem[] = [];
  const nodes = new Map<string, ConfigNode>();
  for (const [index, value] of entriesOf(sluice, 'nodes')) {
    if (isWrong(sluice, ['nodes', index])) continue;
    const node = value as unknown as NodeText;
    const complain = (field: string, why: string, hint: string): void => {
      const path = ['nodes', index, field];
      problems.push(configProblem(sluice.origin.place(path), sluiceObject, path, why, hint));
    };
    if (nodes.has(node.name)) complain('name', `there are two nodes named ${node.name}`, 'Remove one of them');
    const families = (node.podCIDRs ?? []).map((cidr) => parseCidr(cidr)?.family);
    if (new Set(families).size < families.length)
      complain('podCIDRs', 'both CIDRs are of the same family', 'Use one CIDR per family');
    nodes.set(node.name, toNode(node));
  }
  return { nodes: [...nodes.values()].toSorted((a, b) => compareText(a.name, b.name)), problems };
}

function toNode(node: NodeText): ConfigNode {
  return {
    name: node.name,
    labels: Object.fromEntries(Object.entries(node.labels ?? {}).toSorted(([a], [b]) => compareText(a, b))),
    addresses: (node.addresses ?? []).map((text) => parseAddress(text)?.text ?? text),
    podCIDRs: (node.podCIDRs ?? []).map((text) => parseCidr(text)?.text ?? text),
    ...(node.cores !== undefined && { cores: node.cores }),
  };
}
