import { type Problem, setOf, switches, type TableProgram } from '@sluice/netfilter';
import { countNames, foreignSluiceChains, ownState } from '../plan/ownership.ts';
import { decodeTable } from '../../ports/nftables/decode.ts';
import type { Ports } from '../../ports/ports.ts';
import type { Refusal } from '../../ports/refusal.ts';
import { familiesOf, mapTables, type NodeState, tableOf, isTree } from '../../ports/node-state.ts';
import { familiesWithTools } from '../admission/start-state.ts';

/**
 * Reads Sluice's rules in layout `tree`, or its table of mode nftables, back from the kernel, for a node that lost its state directory. The names of the chains identify
 * them. In the other layout and mode the names are kube-proxy's, and `takeOver: kube-proxy` takes these over.
 * @returns the rules without those of a switch, or why they cannot be taken over
 */
export async function recognise(
  facts: Parameters<typeof familiesWithTools>[0],
  { kernel }: Pick<Ports, 'kernel'>,
): Promise<NodeState | Refusal> {
  const switchStates = await kernel.switch?.look();
  if (switchStates && (switchStates.nat !== 'off' || switchStates.filter !== 'off')) return refused(onProbation);
  const listed = await kernel.nft?.observe();
  const nft = listed && decodeTable(listed);
  if (listed) return nft ? { families: {}, sysctls: new Map(), nft } : refused(unknownTable);
  const observed = await kernel.observe(familiesWithTools(facts));
  const names = foreignSluiceChains(observed, {});
  const ours: Pick<NodeState, 'families'> = { families: ownState(observed, names, { families: {} }) };
  if (countNames(names) === 0 || !isTree(ours)) return refused(nothingThere);
  const families = mapTables(familiesOf(ours), (family, table) => withoutSwitch(tableOf(ours, family, table)));
  return { families, sysctls: new Map() };
}

function withoutSwitch({ chains, jumps }: TableProgram): TableProgram {
  const names: readonly string[] = Object.values(switches);
  const usesSwitch = (rule: string): boolean => names.includes(setOf(rule) ?? '');
  const withoutIt = [...chains].map(
    ([name, rules]) => [name, rules.some(usesSwitch) ? rules.filter((one) => !usesSwitch(one)) : rules] as const,
  );
  return { chains: new Map(withoutIt), jumps };
}

const onProbation = {
  message: 'Cannot take over the rules of Sluice: packets meet a release on probation, and its journal is lost',
  hint: 'Wait until the dead-man switch has returned the kernel to the old rules (probation.deadmanSeconds), then try again',
};
const unknownTable = {
  message: 'Cannot recover: table inet sluice is not one that this version of Sluice writes',
  hint: 'Use the version of sluiced that wrote it. Only if it serves no Service, remove the table and apply a bundle: `nft delete table inet sluice`',
};
const nothingThere = {
  message: 'Cannot recover: the kernel holds no rules of Sluice in layout tree, and no table of mode nftables',
  hint: "Apply a bundle; chains with kube-proxy's names are taken over by `takeOver: kube-proxy` in sluiced.yaml",
};

const refused = (what: Pick<Problem, 'message' | 'hint'>): Refusal => ({
  problems: [{ code: 'NODE_STATE_INVALID', level: 'error', ...what }],
});
