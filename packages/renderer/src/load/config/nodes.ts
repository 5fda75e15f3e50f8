import { compareText, parseAddress, parseCidr, type Problem } from '@sluice/bundle';
import type { ConfigNode } from '../../render/config.ts';
import { configProblem } from './problems.ts';
import { entriesOf, isWrong, type SluiceText, sluiceObject } from './sluice.ts';

/** The shape of an entry of `nodes` once the schema has allowed it. */
interface NodeText {
  readonly name: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly addresses?: readonly string[];
  readonly podCIDRs?: readonly string[];
  readonly cores?: number;
}

/** The nodes of sluice.yaml, by name, addresses canonical. Entries that the schema does not allow are left out. */
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
    if (nodes.has(node.name)) complain('name', `node ${node.name} is there twice`, 'Keep one of the two');
    const families = (node.podCIDRs ?? []).map((cidr) => parseCidr(cidr)?.family);
    if (new Set(families).size < families.length)
      complain('podCIDRs', 'two CIDRs are of one family', 'Give one per family');
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
