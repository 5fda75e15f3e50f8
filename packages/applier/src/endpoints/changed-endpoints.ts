import { differing, type TableProgram } from '@sluice/netfilter';
import { isEndpoint, type ServiceRules } from './service-rules.ts';

/**
 * The chains of endpoints that both tables have, with different rules. In layout `flat` the name of such a chain does not identify its
 * content, and the rules of its Service do not change with it: a comparison of Services alone would miss it.
 */
export function changedEndpoints(from: TableProgram, desired: TableProgram): readonly string[] {
  return differing(from.chains, desired.chains).filter((name) => {
    const [before, after] = [from.chains.get(name), desired.chains.get(name)];
    return isEndpoint(name) && before !== undefined && after !== undefined && before.join('\n') !== after.join('\n');
  });
}

/**
 * The chains of endpoints that the comparison of one Service covers: those that it leads to before and after. A chain that it leads to
 * only after may belong to another Service.
 */
export function comparedEndpoints(before: ServiceRules, after: ServiceRules): readonly string[] {
  const had = new Set(before.chains);
  return after.chains.filter((name) => had.has(name));
}
