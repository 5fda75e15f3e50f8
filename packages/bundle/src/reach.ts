import type { Mode } from './documents.ts';
import { chainsOfMode, isServiceChain } from './link/chains.ts';
import { FileProblems, type Problem } from './problem.ts';
import type { RuleFile, TableName } from './rulefile.ts';
import { chainOf, leadsTo, type ResolvedSection } from './resolve.ts';

/**
 * What of a resolved file reaches further than it may: into chains of another file, or into base chains that a Service has
 * nothing to do with. It looks at the text with the variables filled in, so that no value can lead further than the file.
 * @param kind whose file it is: a Service's, or one of a profile's base files
 * @param resolved the file as it stands on the node
 * @returns `RULE_REFUSED` for each chain and rule
 */
export function reachProblems(
  path: string,
  kind: Kind,
  file: RuleFile,
  resolved: readonly ResolvedSection[],
  mode: Mode = 'iptables',
): readonly Problem[] {
  const problems = new FileProblems();
  const refuse = (what: string, why: string | undefined): void =>
    why === undefined ? undefined : problems.add(refusal(path, what, why));
  for (const { table, chains } of file.sections)
    for (const chain of chains) refuse(`chain ${chain}`, refuseChain(mode, kind, table, chain));
  for (const { table, chains, rules } of resolved) {
    const own = new Set(chains);
    for (const rule of rules) refuse(`rule "${rule}"`, refuseRule({ mode, kind, table, own }, rule));
  }
  return problems.all;
}

type Kind = 'base' | 'service';

function refuseChain(mode: Mode, kind: Kind, table: TableName, chain: string): string | undefined {
  if (kind === 'base') return chainsOfMode[mode].base[table].has(chain) ? undefined : `it is no base chain of ${table}`;
  return mode === 'iptables' && table === 'nat' && isServiceChain(chain) ? undefined : 'it is no chain of a Service';
}

interface Whose {
  readonly mode: Mode;
  readonly kind: Kind;
  readonly table: TableName;
  readonly own: ReadonlySet<string>;
}

function refuseRule({ mode, kind, table, own }: Whose, rule: string): string | undefined {
  const chain = chainOf(rule);
  const { base, dispatch, called: callable } = chainsOfMode[mode];
  const [open, called] = kind === 'base' ? [base, base] : [dispatch, callable];
  if (!own.has(chain) && !open[table].has(chain)) return `a ${kind} file must not append to ${table} chain ${chain}`;
  const target = leadsTo(rule);
  if (target === undefined || own.has(target) || called[table].has(target) || plainTarget.test(target))
    return undefined;
  return `a ${kind} file must not lead to ${table} chain ${target}`;
}

/** Whatever is not plainly a target like ACCEPT counts as a chain, so that nothing gets by through a strange spelling. */
const plainTarget = /^[A-Z]+$/;

function refusal(path: string, what: string, why: string): Problem {
  return {
    code: 'RULE_REFUSED',
    level: 'error',
    message: `Cannot take ${what} of ${path}: ${why}`,
    hint: 'Rule files are written by `sluice render`; render again with the same version rather than edit them',
  };
}
