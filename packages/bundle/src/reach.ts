import { baseChains, calledChains, dispatchChains, isServiceChain } from './link/chains.ts';
import type { Problem } from './problem.ts';
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
): readonly Problem[] {
  const declared = file.sections.flatMap(({ table, chains }) =>
    chains.flatMap((chain) => refuse(path, `chain ${chain}`, refuseChain(kind, table, chain))),
  );
  const rules = resolved.flatMap((section) => {
    const own = new Set(section.chains);
    return section.rules.flatMap((rule) => refuse(path, `rule "${rule}"`, refuseRule(kind, section.table, own, rule)));
  });
  return [...declared, ...rules];
}

type Kind = 'base' | 'service';

function refuseChain(kind: Kind, table: TableName, chain: string): string | undefined {
  if (kind === 'base') return baseChains[table].has(chain) ? undefined : `it is no base chain of ${table}`;
  return table === 'nat' && isServiceChain(chain) ? undefined : 'it is no chain of a Service';
}

function refuseRule(kind: Kind, table: TableName, own: ReadonlySet<string>, rule: string): string | undefined {
  const chain = chainOf(rule);
  const [open, called] = kind === 'base' ? [baseChains, baseChains] : [dispatchChains, calledChains];
  if (!own.has(chain) && !open[table].has(chain)) return `a ${kind} file must not append to ${table} chain ${chain}`;
  const target = leadsTo(rule);
  if (target === undefined || own.has(target) || called[table].has(target) || plainTarget.test(target))
    return undefined;
  return `a ${kind} file must not lead to ${table} chain ${target}`;
}

/** Whatever is not plainly a target like ACCEPT counts as a chain, so that nothing gets by through a strange spelling. */
const plainTarget = /^[A-Z]+$/;

function refuse(path: string, what: string, why: string | undefined): readonly Problem[] {
  if (why === undefined) return [];
  return [
    {
      code: 'RULE_REFUSED',
      level: 'error',
      message: `Cannot take ${what} of ${path}: ${why}`,
      hint: 'Rule files are written by `sluice render`; render again with the same version rather than edit them',
    },
  ];
}
