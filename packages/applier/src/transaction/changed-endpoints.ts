import { differing, type TableProgram } from '@sluice/bundle';
import { isEndpoint, type ServiceRules } from './service.ts';

/**
 * Chains of endpoints that two tables both have, with other rules in each. In layout `flat` the name of such a chain does not say what
 * is in it, and the chain of its Service is the same text as before: whoever compares Services alone does not meet it.
 */
export function changedEndpoints(from: TableProgram, desired: TableProgram): readonly string[] {
  return differing(from.chains, desired.chains).filter((name) => {
    const [before, after] = [from.chains.get(name), desired.chains.get(name)];
    return isEndpoint(name) && before !== undefined && after !== undefined && before.join('\n') !== after.join('\n');
  });
}

/**
 * The chains of endpoints that are understood where one Service was compared: those that it led to before and leads to now. One that it
 * leads to only now may be another Service's.
 */
export function comparedEndpoints(before: ServiceRules, after: ServiceRules): readonly string[] {
  const had = new Set(before.chains);
  return after.chains.filter((name) => had.has(name));
}
