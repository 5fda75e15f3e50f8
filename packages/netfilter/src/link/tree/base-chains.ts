import type { Family, TableName } from '../../family.ts';
import { flatJumps } from '../jumps.ts';
import { markLate } from './in-place.ts';

/** The base chains that dispatch to Services: one entry chain each, behind the switch. nat KUBE-NODEPORTS is reached from the other only. */
export const entryChains = {
  filter: ['KUBE-SERVICES', 'KUBE-EXTERNAL-SERVICES', 'KUBE-NODEPORTS', 'KUBE-PROXY-FIREWALL'],
  nat: ['KUBE-SERVICES'],
} as const satisfies Record<TableName, readonly string[]>;

/** The base chains whose rules every packet traverses, in every switch state. */
export const baseChainNames = {
  filter: ['KUBE-FORWARD', 'KUBE-FIREWALL'],
  nat: ['KUBE-MARK-MASQ', 'KUBE-POSTROUTING'],
} as const satisfies Record<TableName, readonly string[]>;

/** The name of an entry chain or base chain in layout `tree`: `KUBE-SERVICES` → `SLUICE-SERVICES`. */
export function baseChainName(base: string): string {
  return base.replace(/^KUBE-/, 'SLUICE-');
}

/** Chains of kube-proxy that CNI plugins jump to; on a node without kube-proxy Sluice provides them. */
export const providedChains = ['KUBE-MARK-MASQ', 'KUBE-POSTROUTING'] as const;

/**
 * The rules of the base chains. A firewall without rules is left out.
 * @param rules of base chains, each without `-A <name> `
 * @param late the family, with endpoints in place: `markLate`
 * @param provide also provide kube-proxy's chains that CNI plugins jump to: for marking, and for masquerading marked packets
 */
export function baseChainsOf(
  table: TableName,
  rules: ReadonlyMap<string, readonly string[]>,
  provide: boolean,
  late: Family | undefined,
): ReadonlyMap<string, readonly string[]> {
  const baseChains = new Map<string, readonly string[]>();
  const write = (name: string, own: readonly string[] | undefined): void => {
    if (own)
      baseChains.set(
        name,
        own.map((rule) => `-A ${name} ${rule}`),
      );
  };
  for (const base of baseChainNames[table]) {
    const own = rules.get(base);
    // kube-proxy has the chain in any case, since it shares it with the kubelet; that of layout `tree` is Sluice's alone.
    if (base === 'KUBE-FIREWALL' && own?.length === 0) continue;
    write(baseChainName(base), own && late ? markLate(base, own, late) : own);
  }
  if (provide && table === 'nat') for (const base of providedChains) write(base, rules.get(base));
  return baseChains;
}

/** The jumps from built-in chains to entry chains and to the base chains in use. */
export function treeJumps(table: TableName, baseChains: ReadonlyMap<string, unknown>): readonly string[] {
  const entries = new Set(entryChains[table].map(baseChainName));
  const ours = flatJumps[table].map((jump) => jump.replace(/(?<= -j )KUBE-/, 'SLUICE-'));
  const provided = flatJumps[table].filter((jump) => baseChains.has(targetName(jump)));
  return [...ours.filter((jump) => entries.has(targetName(jump)) || baseChains.has(targetName(jump))), ...provided];
}

function targetName(jump: string): string {
  return jump.slice(jump.lastIndexOf(' ') + 1);
}
