import type { Mode } from '../rules/mode-facts.ts';
import { type Problem, refusal } from '../problem.ts';
import type { TableName } from '../family.ts';
import type { Rule, Target } from '../rules/rule.ts';
import { chainsOfMode, isServiceChain } from './chains.ts';
import { tableNames } from './program.ts';

/**
 * Why a chain of this name must not be linked; undefined when it may. Other controllers have chains whose names start with KUBE-, too; a
 * program with such a chain would overwrite it.
 */
export function refuseChain(table: TableName, chain: string, mode: Mode = 'iptables'): string | undefined {
  const known =
    chainsOfMode[mode].base[table].has(chain) || (mode === 'iptables' && table === 'nat' && isServiceChain(chain));
  return known ? undefined : `kube-proxy has no chain of this name in ${table}`;
}

/** The tables in which the kernel accepts a target. It refuses DROP in nat, since only the first packet of a connection passes nat. */
export const tablesOf = {
  jump: tableNames,
  goto: tableNames,
  accept: tableNames,
  return: tableNames,
  mark: tableNames,
  drop: ['filter'],
  reject: ['filter'],
  masquerade: ['nat'],
  dnat: ['nat'],
} as const satisfies Record<Target['kind'], readonly TableName[]>;

/** Rules from a Service to an endpoint, and those of an endpoint's own chain (kube-proxy's `endpointChainComment`). */
export function hasOptionalComment(rule: Rule): boolean {
  if (rule.chain.startsWith('KUBE-SEP-')) return true;
  return rule.target?.kind === 'jump' && rule.target.chain.startsWith('KUBE-SEP-');
}

export function withoutComment(rule: Rule): Rule {
  return { ...rule, matches: rule.matches.filter((match) => match.kind !== 'comment') };
}

/** The problem of a rule or chain that cannot be linked. */
export const unlinkable = (message: string): Problem =>
  refusal(
    'RULE_REFUSED',
    message,
    'Rule files are written by `sluice render`; render again with the same version rather than edit them',
  );
