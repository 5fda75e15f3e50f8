import {
  type BundleFiles,
  type Family,
  type FamilyProgram,
  linkFlat,
  printProgram,
  type Problem,
  resolveNode,
  ResolveCache,
  targetOf,
} from '@sluice/bundle';
import { nodesOfProfile } from './flows.ts';
import { Memory } from './memory.ts';
import { viewOf } from './view.ts';

/** What one kind of node pays for its rules. */
export interface NodeCost {
  readonly profile: string;
  /** The dearest of the nodes that were looked at. */
  readonly node: string;
  readonly nodes: number;
  readonly rules: number;
  readonly chains: number;
  /** What `iptables-restore` and `ip6tables-restore` read in all. */
  readonly bytes: number;
  /** The rules that the first packet of a forwarded connection is compared with, at most. */
  readonly longestWalk: number;
  readonly loadSeconds: Readonly<Record<Backend, number>>;
}

export const backends = ['nft', 'legacy'] as const;
export type Backend = (typeof backends)[number];

/**
 * How long the first load takes, from measurements with iptables 1.8.9 on Linux 6.18: 230,000 rules in 60,000 chains (10,000
 * Services with 5 endpoints) take 2.5 s with the legacy tools, which hand the table over whole, and 8.8 s with the nf_tables
 * ones in sections of 100 Services, as `sluiced` loads them. Both grow with the rules; an empty load costs what a process costs.
 * A later change costs far less with nf_tables, and as much again with legacy.
 */
export const loadModel = {
  nft: { startSeconds: 0.02, secondsPerRule: 8.8 / 230_000 },
  legacy: { startSeconds: 0.02, secondsPerRule: 2.5 / 230_000 },
} as const satisfies Record<Backend, { startSeconds: number; secondsPerRule: number }>;

/** Nodes of a profile that are looked at one by one; past them the first in byte order stand for the rest. */
const nodesMax = 16;

/** What a bundle costs its nodes, profile by profile. @returns the costs, or why nodes would refuse the rules */
export function costOf(files: BundleFiles): readonly NodeCost[] | readonly Problem[] {
  const view = viewOf(files);
  if (!('index' in view)) return view;
  const cache = new ResolveCache();
  const costs: NodeCost[] = [];
  for (const profile of view.profiles.keys()) {
    const names = nodesOfProfile(view, profile);
    let dearest: NodeCost | undefined;
    for (const name of names.slice(0, nodesMax)) {
      const cost = costOfNode(files, name, cache, view.memory);
      if (!('rules' in cost)) return cost;
      if (dearest === undefined || cost.rules > dearest.rules)
        dearest = { profile, node: name, nodes: names.length, ...cost };
    }
    if (dearest) costs.push(dearest);
  }
  return costs;
}

type Counted = Omit<NodeCost, 'profile' | 'node' | 'nodes'>;

function costOfNode(
  files: BundleFiles,
  name: string,
  cache: ResolveCache,
  memory: Memory,
): Counted | readonly Problem[] {
  const node = resolveNode(files, name, cache);
  if (!('version' in node)) return node;
  const programs: FamilyProgram[] = [];
  for (const family of ['ipv4', 'ipv6'] as const satisfies readonly Family[]) {
    const rules = node.rules[family];
    if (!rules) continue;
    const { program, problems } = linkFlat(rules, family, (text, of) => memory.line(text, of));
    if (problems.length > 0) return problems;
    programs.push(program);
  }
  const tables = programs.flatMap((program) => [program.filter, program.nat]);
  const rules = tables.reduce((sum, { chains, jumps }) => sum + jumps.length + rulesIn(chains), 0);
  return {
    rules,
    chains: tables.reduce((sum, { chains }) => sum + chains.size, 0),
    bytes: programs.reduce((sum, program) => sum + Buffer.byteLength(printProgram(program)), 0),
    longestWalk: Math.max(0, ...programs.map(longestWalk)),
    loadSeconds: { nft: secondsFor('nft', rules), legacy: secondsFor('legacy', rules) },
  };
}

const rulesIn = (chains: ReadonlyMap<string, readonly string[]>): number =>
  [...chains.values()].reduce((sum, lines) => sum + lines.length, 0);

function secondsFor(backend: Backend, rules: number): number {
  const { startSeconds, secondsPerRule } = loadModel[backend];
  return Number((startSeconds + rules * secondsPerRule).toFixed(3));
}

/** nat PREROUTING, filter FORWARD, nat POSTROUTING: the way of a forwarded connection. */
function longestWalk({ filter, nat }: FamilyProgram): number {
  const through = (table: FamilyProgram['nat'], hook: string): number => {
    const memo = new Map<string, number>();
    const jumps = table.jumps.filter((jump) => jump.startsWith(`-A ${hook} `));
    return jumps.reduce((sum, jump) => sum + 1 + depthOf(targetOf(jump) ?? '', table.chains, memo), 0);
  };
  return through(nat, 'PREROUTING') + through(filter, 'FORWARD') + through(nat, 'POSTROUTING');
}

/** All rules of a chain and the longest of the chains that one of them leads to. */
function depthOf(chain: string, chains: ReadonlyMap<string, readonly string[]>, memo: Map<string, number>): number {
  const known = memo.get(chain);
  if (known !== undefined) return known;
  const lines = chains.get(chain) ?? [];
  const below = lines.map((line) => targetOf(line) ?? '').filter((target) => chains.has(target));
  const depth = below.reduce((most, target) => Math.max(most, depthOf(target, chains, memo)), 0) + lines.length;
  memo.set(chain, depth);
  return depth;
}

/** What a node may cost at most: `budgets` of sluice.yaml. */
export interface Budgets {
  readonly rules?: number;
  readonly chains?: number;
  readonly bytes?: number;
  readonly longestWalk?: number;
  readonly loadSeconds?: number;
}

/** A budget that a profile is beyond. */
export interface Overspent {
  readonly profile: string;
  readonly node: string;
  readonly what: keyof Budgets;
  readonly budget: number;
  readonly cost: number;
}

/** The budgets that profiles are beyond; load time counts for the slower backend. */
export function overspent(costs: readonly NodeCost[], budgets: Budgets): readonly Overspent[] {
  const kinds = [
    'rules',
    'chains',
    'bytes',
    'longestWalk',
    'loadSeconds',
  ] as const satisfies readonly (keyof Budgets)[];
  return costs.flatMap(({ profile, node, loadSeconds, ...cost }) =>
    kinds.flatMap((what) => {
      const budget = budgets[what];
      const spent = what === 'loadSeconds' ? Math.max(...Object.values(loadSeconds)) : cost[what];
      return budget !== undefined && spent > budget ? [{ profile, node, what, budget, cost: spent }] : [];
    }),
  );
}
