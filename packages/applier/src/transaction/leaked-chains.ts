import type { Family, TableName } from '@sluice/bundle';
import { type ChainNames, familyNames, joinNames, type NodeState, type Observed } from '../rollout/state.ts';
import { baseChainParts } from './beside.ts';
import { isTree } from './entries.ts';

/** The names that layout `tree` gives away: 16 characters of a hash and a tag at the end. Nobody else's are spelled so. */
const tagged = /^(?:SLUICE-[RT]|SLU-(?:SVC|SVL|EXT|FW|SEP|GRP))-[A-Z2-7]{16}\.[0-9a-z]{2}$/;

/**
 * Chains that are ours by their names alone, for where a generation that made some cannot be read any more: whatever of them a desired state
 * lacks may go. Those that foreign rules lead to stay (`adaptDesired`), as do all in the other layouts, whose names are kube-proxy's.
 * @param state what the change was made from or to
 */
export function leakedChains(observed: Observed, state: Pick<NodeState, 'families'>): ChainNames {
  const found: { [F in Family]?: Record<TableName, readonly string[]> } = {};
  for (const family of familyNames) {
    const seen = observed[family];
    if (!seen) continue;
    const names = (table: TableName): readonly string[] =>
      [...seen[table].chains.keys()].filter((name) => tagged.test(name));
    found[family] = { filter: names('filter'), nat: names('nat') };
  }
  return isTree(state) ? joinNames(found, baseChainParts(state, state)) : found;
}
