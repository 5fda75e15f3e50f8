import { type FamilyProgram, type Mode, type TableProgram, targetOf } from '@sluice/bundle';

/** The built-in chains on the way of a connection from outside; what virtual servers hand on leaves by OUTPUT. */
const waysOf = {
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
} as const satisfies Readonly<Record<Mode, readonly (readonly [keyof FamilyProgram, string])[]>>;

/** The rules that the first packet of a connection from outside is compared with, at most: as if no rule ended its way early. */
export function longestWalk(program: FamilyProgram, mode: Mode): number {
  return waysOf[mode].reduce((sum, [table, hook]) => sum + through(program[table], hook), 0);
}

function through({ chains, jumps }: TableProgram, hook: string): number {
  const memo = new Map<string, number>();
  const own = jumps.filter((jump) => jump.startsWith(`-A ${hook} `));
  return own.reduce((sum, jump) => sum + 1 + depthOf(targetOf(jump) ?? '', chains, memo), 0);
}

/** All rules of a chain and the longest of the chains that one of them leads to. */
function depthOf(chain: string, chains: TableProgram['chains'], memo: Map<string, number>): number {
  const known = memo.get(chain);
  if (known !== undefined) return known;
  const lines = chains.get(chain) ?? [];
  const below = lines.map((line) => targetOf(line) ?? '').filter((target) => chains.has(target));
  const depth = below.reduce((most, target) => Math.max(most, depthOf(target, chains, memo)), 0) + lines.length;
  memo.set(chain, depth);
  return depth;
}
