import { compareText, type Family, type NamedFrontend, planeOf } from '@sluice/netfilter';
import type { NodeState } from '../../ports/node-state.ts';

/**
 * The frontends of a state, sorted by Service.
 * @param withRejected also those of Services without endpoints
 */
export const frontendsOf = (state: NodeState, family: Family, withRejected = false): readonly NamedFrontend[] =>
  [...planeOf(state).read(state).frontends(family, withRejected)].toSorted((a, b) => compareText(a.service, b.service));
