import { type NftState, printNft, readListName } from '@sluice/netfilter';
import type { NodeLoad } from './load-model.ts';

/** The cost of a node of mode nftables. */
interface TableCost {
  readonly load: NodeLoad;
  readonly bytes: number;
  readonly longestWalk: number;
}

/** The chains of the table that the first packet of a connection from outside to a node port traverses. */
const walked = [
  'pre-dnat',
  'ranges4',
  'nat-prerouting',
  'services4',
  'nodeports4',
  'forward',
  'unserved4',
  'nat-postrouting',
  'masquerade4',
  'masquerade-node4',
];

/** Counts what `nft` loads for a state. The walk does not depend on Services, except for the longest chain of a list. */
export function tableCost(state: NftState): TableCost {
  const text = printNft(state);
  const rules = rulesByChain(text);
  const lists = [...rules].filter(([name]) => readListName(name.replace(/-known$/, '')));
  const longestList = Math.max(0, ...lists.map(([, count]) => count));
  return {
    load: {
      rules: [...rules.values()].reduce((sum, count) => sum + count, 0),
      chains: rules.size,
      elements: elementsIn(text),
    },
    bytes: Buffer.byteLength(text),
    longestWalk: walked.reduce((sum, name) => sum + (rules.get(name) ?? 0), longestList),
  };
}

/** The rules of each chain: those in the table's text, and those that are added for lists. */
function rulesByChain(text: string): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  let open: string | undefined;
  for (const line of text.split('\n')) {
    const [, declared] = /^ {2}chain (\S+) \{$/.exec(line) ?? /^add chain inet sluice (\S+)$/.exec(line) ?? [];
    const [, added] = /^add rule inet sluice (\S+) /.exec(line) ?? [];
    if (declared !== undefined) counts.set(declared, 0);
    if (line.startsWith('  chain ')) open = declared;
    else if (line === '  }') open = undefined;
    const chain = added ?? (line.startsWith('    type ') ? undefined : open);
    if (chain !== undefined && declared === undefined) counts.set(chain, (counts.get(chain) ?? 0) + 1);
  }
  return counts;
}

const elementsIn = (text: string): number =>
  text
    .split('\n')
    .filter((line) => line.startsWith('add element '))
    .reduce((sum, line) => sum + line.split(', ').length, 0);
