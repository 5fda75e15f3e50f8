import { frontendsOf } from '../order/frontends.ts';
import { plan } from '../rollout/plan.ts';
import type { Generation } from '../rollout/ports.ts';
import { familyNames, type NodeState } from '../rollout/state.ts';
import { type EndpointChange, endpointChanges } from './endpoint-changes.ts';
import { overlayEndpoints } from './overlay-endpoints.ts';

/** A way back that an operator asks for, decided before anything is touched. */
export interface WayBackPlan {
  /** The generation with the endpoints that it comes back with. */
  readonly target: Generation;
  /** Services that come back, and those that go. Undefined where nobody knows what stands. */
  readonly services: { readonly come: readonly string[]; readonly go: readonly string[] } | undefined;
  /** The newest endpoints stay where they can. */
  readonly keepsNewest: boolean;
  /** Services that both have, with other endpoints than now: those of then, which may be gone. */
  readonly changes: readonly EndpointChange[];
  /** How many lines of rules change. */
  readonly lines: number;
}

/**
 * What an earlier generation comes back with. Its endpoints may be long gone, so those that stand now stay, for every Service that both
 * have; a Service that comes back has the endpoints of then.
 * @param active undefined where it cannot be read
 * @param keepsNewest false: the endpoints of then come back, too
 */
export function planWayBack(active: Generation | undefined, old: Generation, keepsNewest: boolean): WayBackPlan {
  if (!active) return { target: old, services: undefined, keepsNewest: false, changes: [], lines: 0 };
  // What was before Sluice comes back as it was.
  const isKept = keepsNewest && old.number > 0;
  const state = isKept ? overlayEndpoints(old.state, active.state, { stands: true }) : old.state;
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

function servicesBetween(from: NodeState, to: NodeState): NonNullable<WayBackPlan['services']> {
  const [had, has] = [servicesOf(from), servicesOf(to)];
  return { come: [...has].filter((name) => !had.has(name)), go: [...had].filter((name) => !has.has(name)) };
}

const servicesOf = (state: NodeState): ReadonlySet<string> =>
  new Set(familyNames.flatMap((family) => frontendsOf(state, family, true).map(({ service }) => service)));
