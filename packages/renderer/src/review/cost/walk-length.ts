import { type FamilyProgram, type Mode, type TableProgram, targetOf } from '@sluice/netfilter';

/** The built-in chains that a connection from outside traverses; packets that IPVS forwards leave through OUTPUT. */
const entryChains = {
  iptables: [
    ['nat', 'PREROUTING'],
    ['filter', 'FORWARD'],
    ['nat', 'POSTROUTING'],
  ],
  ipvs: [
    ['nat', 'PREROUTING'],
    ['filter', 'INPUT'],
    ['filter', 'OUTPUT'],
    ['nat', 'POSTROUTING'],
  ],
  nftables: [],
} as const satisfies Readonly<Record<Mode, readonly (readonly [keyof FamilyProgram, string])[]>>;

/** The most rules that the first packet of a connection from outside is compared with: no rule ends the walk early. */
export function longestWalk(program: FamilyProgram, mode: Mode): number {
  return entryChains[mode].reduce((sum, [table, hook]) => sum + through(program[table], hook), 0);
}

function through({ chains, jumps }: TableProgram, hook: string): number {
  const memo = new Map<string, number>();
  const own = jumps.filter((jump) => jump.startsWith(`-A ${hook} `));
  return own.reduce((sum, jump) => sum + 1 + depthOf(targetOf(jump) ?? '', chains, memo), 0);
}

/** All rules of a chain and the longest of the chains that they jump to. */
function depthOf(chain: string, chains: TableProgram['chains'], memo: Map<string, number>): number {
  const known = memo.get(chain);
  if (known !== undefined) return known;
  const lines = chains.get(chain) ?? [];
  const below = lines.map((line) => targetOf(line) ?? '').filter((target) => chains.has(target));
  const depth = below.reduce((most, target) => Math.max(most, depthOf(target, chains, memo)), 0) + lines.length;
  memo.set(chain, depth);
  return depth;
}
