import type { Family, TableName } from '@sluice/netfilter';
import { type OwnedNames, familyNames, joinNames, type NodeState, type Observed } from '../ports/node-state.ts';
import { baseChainParts } from './side-by-side.ts';
import { isTree } from './entries.ts';

/** The form of names in layout `tree`: 16 characters of a hash, and a tag. No other program uses it. */
const tagged = /^(?:SLUICE-[RT]|SLU-(?:SVC|SVL|EXT|FW|SEP|GRP))-[A-Z2-7]{16}\.[0-9a-z]{2}$/;

/**
 * Chains that are ours by the form of their names. For when a generation that made some cannot be read any more: those that the desired
 * state lacks may be removed. Chains that foreign rules lead to stay (`adaptDesired`), as do all chains of the other layouts, which have
 * the same names as kube-proxy's.
 * @param state the state before or after the change
 */
export function leakedChains(observed: Observed, state: Pick<NodeState, 'families'>): OwnedNames {
  const found: { [F in Family]?: Record<TableName, readonly string[]> } = {};
  for (const family of familyNames) {
    const tables = observed[family];
    if (!tables) continue;
    const names = (table: TableName): readonly string[] =>
      [...tables[table].chains.keys()].filter((name) => tagged.test(name));
    found[family] = { filter: names('filter'), nat: names('nat') };
  }
  return isTree(state) ? joinNames(found, baseChainParts(state, state)) : found;
}
