import { frontendsOf } from '../order/frontends.ts';
import { plan } from '../plan/plan.ts';
import type { Generation } from '../ports/journal.ts';
import { familyNames, type NodeState } from '../ports/node-state.ts';
import { type EndpointChange, endpointChanges } from '../endpoints/endpoint-changes.ts';
import { overlayEndpoints } from '../endpoints/overlay-endpoints.ts';

/** A rollback on request of the operator, decided before anything is touched. */
export interface RollbackToPlan {
  /** The generation, with the endpoints that it will have. */
  readonly target: Generation;
  /** Services that are restored and removed; undefined if the active generation cannot be read. */
  readonly services: { readonly come: readonly string[]; readonly go: readonly string[] } | undefined;
  /** The newest endpoints are kept where possible. */
  readonly keepsNewest: boolean;
  /** Services of both generations whose endpoints become the old ones, which may no longer exist. */
  readonly changes: readonly EndpointChange[];
  /** The number of changed lines of rules. */
  readonly lines: number;
}

/**
 * Plans a rollback to an earlier generation. Its endpoints may no longer exist, so every Service of both generations keeps its present
 * ones; a restored Service has its old ones.
 * @param active undefined if it cannot be read
 * @param keepsNewest false: restore the old endpoints, too
 */
export function planRollbackTo(active: Generation | undefined, old: Generation, keepsNewest: boolean): RollbackToPlan {
  if (!active) return { target: old, services: undefined, keepsNewest: false, changes: [], lines: 0 };
  // Generation 0, the rules before Sluice, is never changed.
  const isKept = keepsNewest && old.number > 0;
  const state = isKept ? overlayEndpoints(old.state, active.state, { inKernel: true }) : old.state;
  // With other endpoints it is another revision of its generation.
  const target = state === old.state ? old : { ...old, revision: old.revision + 1, state };
  const { steps } = plan(active.state, state, { slowWithManyChains: false });
  const services = servicesBetween(active.state, state);
  const named = new Set([...services.come, ...services.go]);
  const texts = steps.flatMap((step) => ('text' in step ? [step.text] : []));
  return {
    target,
    services,
    keepsNewest: isKept,
    changes: endpointChanges(active.state, state).filter(({ service }) => !named.has(service)),
    lines: texts.reduce((sum, text) => sum + text.trimEnd().split('\n').length, 0),
  };
}

function servicesBetween(from: NodeState, to: NodeState): NonNullable<RollbackToPlan['services']> {
  const [had, has] = [servicesOf(from), servicesOf(to)];
  return { come: [...has].filter((name) => !had.has(name)), go: [...had].filter((name) => !has.has(name)) };
}

const servicesOf = (state: NodeState): ReadonlySet<string> =>
  new Set(familyNames.flatMap((family) => frontendsOf(state, family, true).map(({ service }) => service)));
