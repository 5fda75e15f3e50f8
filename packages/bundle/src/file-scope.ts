import {
  type Mode,
  chainsOfMode,
  isServiceChain,
  modeFacts,
  FileProblems,
  type Problem,
  refusal,
  type TableName,
  chainOf,
  jumpTargetOf,
  type ResolvedSection,
} from '@sluice/netfilter';
import type { RuleFile } from './rulefile.ts';

/**
 * Finds chains and rules of a resolved file outside of its scope: in chains of another file, or in base chains that Services do not use.
 * The text is checked with variables filled in, so that no value can extend the scope.
 * @param kind a file of a Service, or a base file of a profile
 * @param resolved the file as resolved for the node
 * @returns `RULE_REFUSED` for each chain and rule
 */
export function scopeProblems(
  path: string,
  kind: FileKind,
  file: RuleFile,
  resolved: readonly ResolvedSection[],
  mode: Mode = 'iptables',
): readonly Problem[] {
  const problems = new FileProblems();
  const refuse = (what: string, why: string | undefined): void =>
    why === undefined ? undefined : problems.add(outside(path, what, why));
  for (const { table, chains } of file.sections)
    for (const chain of chains) refuse(`chain ${chain}`, refuseChain(mode, kind, table, chain));
  for (const { table, chains, rules } of resolved) {
    const own = new Set(chains);
    for (const rule of rules) refuse(`rule "${rule}"`, refuseRule({ mode, kind, table, own }, rule));
  }
  return problems.all;
}

type FileKind = 'base' | 'service';

function refuseChain(mode: Mode, kind: FileKind, table: TableName, chain: string): string | undefined {
  if (kind === 'base')
    return chainsOfMode[mode].base[table].has(chain) ? undefined : `it is not a base chain of ${table}`;
  return modeFacts[mode].hasServiceChains && table === 'nat' && isServiceChain(chain)
    ? undefined
    : 'it is not a chain of a Service';
}

interface FileScope {
  readonly mode: Mode;
  readonly kind: FileKind;
  readonly table: TableName;
  readonly own: ReadonlySet<string>;
}

function refuseRule({ mode, kind, table, own }: FileScope, rule: string): string | undefined {
  const chain = chainOf(rule);
  const { base, dispatch, called: callable } = chainsOfMode[mode];
  const [open, called] = kind === 'base' ? [base, base] : [dispatch, callable];
  if (!own.has(chain) && !open[table].has(chain)) return `a ${kind} file must not append to ${table} chain ${chain}`;
  const target = jumpTargetOf(rule);
  if (target === undefined || own.has(target) || called[table].has(target) || plainTarget.test(target))
    return undefined;
  return `a ${kind} file must not jump to ${table} chain ${target}`;
}

/** Any other target counts as a chain, so that no unusual spelling evades the check. */
const plainTarget = /^[A-Z]+$/;

const outside = (path: string, what: string, why: string): Problem =>
  refusal(
    'RULE_REFUSED',
    `Cannot use ${what} of ${path}: ${why}`,
    'Rule files are written by `sluice render`; render again with the same version rather than edit them',
  );
