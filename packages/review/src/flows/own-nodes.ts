import type { VirtualFile } from '@sluice/bundle';
import { hasLines, type NftElement, perObject, readNftLine } from '@sluice/netfilter';
import { virtualAt } from '../bundle/files.ts';
import { toolAt } from '../bundle/tools.ts';
import type { BundleView } from '../bundle/view.ts';

/** By the address of an endpoint: the nodes that are its own. */
export type OwnNodes = ReadonlyMap<string, ReadonlySet<string>>;

/** Some Service files of one bundle. */
export interface Slice {
  readonly view: BundleView;
  readonly paths: readonly string[];
}

/**
 * The nodes that masquerade what an endpoint sends to itself, as lines of `.nft` files name them. Every node has a line for each endpoint
 * there, which is why these lines divide no nodes into groups: only packets of that endpoint meet them. The set is one for all Services;
 * reviews ask of each file that it has the lines of its own endpoints, as `sluice` writes it.
 * @param declared own nodes that lines of a wrong bundle may not name
 */
export function ownNodesOf(slices: readonly Slice[], declared: OwnNodes = new Map()): OwnNodes {
  const found = new Map(declared);
  for (const { view, paths } of slices)
    for (const path of paths)
      if (hasLines(toolAt(path).tool))
        // Files nearly always name the same nodes as declared.
        for (const [address, names] of ownNodesIn(virtualAt(view, path)))
          for (const name of names) addNode(found, address, name);
  return found;
}

const ownNodesIn = perObject(({ lines }: VirtualFile): OwnNodes => {
  const found = new Map<string, ReadonlySet<string>>();
  for (const line of lines) {
    const names = ownNodesAt(line);
    const read = names.length > 0 ? readNftLine(line.text) : undefined;
    if (!read || 'error' in read) continue;
    for (const address of read.elements.flatMap(addressIn)) for (const name of names) addNode(found, address, name);
  }
  return found;
});

const addressIn = (element: NftElement): readonly string[] => (element.kind === 'loop' ? [element.address] : []);

/** The nodes that a line about an endpoint's own node names; none: it is another line. */
export const ownNodesAt = ({ guard, text }: VirtualFile['lines'][number]): readonly string[] =>
  guard?.kind === 'node' && !guard.negated && loopForm.test(text) ? guard.values : none;

const loopForm = /^add element inet sluice loop[46] /;
const none: readonly string[] = [];

/** Adds a node to the own nodes of an address. */
export function addNode(found: Map<string, ReadonlySet<string>>, address: string, name: string): void {
  const known = found.get(address);
  if (known?.has(name) === true) return;
  found.set(address, known ? new Set(known).add(name) : alone(name));
}

/** One set for all addresses with one node, as nearly all have: a bundle has many times more addresses than nodes. */
function alone(name: string): ReadonlySet<string> {
  const known = setsOfOne.get(name);
  if (known) return known;
  const single: ReadonlySet<string> = new Set([name]);
  if (setsOfOne.size >= setsOfOneMax) setsOfOne.clear();
  setsOfOne.set(name, single);
  return single;
}

const setsOfOne = new Map<string, ReadonlySet<string>>();
/** Nodes of the largest cluster that Kubernetes supports. */
const setsOfOneMax = 5_000;
