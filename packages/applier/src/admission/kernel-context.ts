import type { Family } from '@sluice/netfilter';
import type { Ports } from '../ports/ports.ts';
import { familyNames, type NodeState, type Observed } from '../ports/node-state.ts';
import { isTree } from '../plan/entries.ts';

/**
 * Whether layout `tree` must provide the chains of kube-proxy that CNI plugins jump to. While kube-proxy's rules stay beside ours it does
 * not, because they contain these chains.
 * @param families those that the node has tools for
 * @returns also the tables, if they had to be read
 */
export async function providesKubeChains(
  families: readonly Family[],
  { journal, kernel }: Pick<Ports, 'journal' | 'kernel'>,
): Promise<{ readonly provides: boolean; readonly tables?: Observed }> {
  const { active } = journal;
  if (active && active.number > 0) return { provides: !isTree(active.state) || hasMark(active.state) };
  const tables = await kernel.observe(families);
  return { provides: !familyNames.some((family) => tables[family]?.nat.chains.has('KUBE-MARK-MASQ')), tables };
}

function hasMark({ families }: NodeState): boolean {
  return familyNames.some((family) => families[family]?.nat.chains.has('KUBE-MARK-MASQ'));
}
