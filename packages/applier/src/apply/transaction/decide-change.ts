import { knownAfter } from '../../ports/ipvs/values.ts';
import { flowChange } from '../plan/flows.ts';
import { adaptDesired, countNames, foreignProxyChains } from '../plan/ownership.ts';
import type { ChangeKind, VersionedState } from '../../ports/journal.ts';
import type { Ports } from '../../ports/ports.ts';
import type { Refusal } from '../../ports/refusal.ts';
import { withDropped, withSysctls } from './restore.ts';
import { chainNames, joinNames, type NodeState } from '../../ports/node-state.ts';
import { readOtherPlanes } from '../plan/other-planes.ts';
import { setsTimeouts, virtualConflicts } from '../plan/virtual.ts';
import type { StartState } from '../admission/start-state.ts';
import { type ChangeClass, classify } from '../endpoints/change-kind.ts';
import type { PlannedChange } from './planned-change.ts';
import { planTransaction } from '../planes/planes.ts';

/** Facts about a change that its rules do not show. */
export interface ChangeHints {
  /** Overrides the classification: restored endpoints are an update, however many they are. */
  readonly changeKind?: ChangeKind;
  /** Keys for endpoints may replace all endpoints of a Service: they are bound by networks instead (`refuseOutside`). */
  readonly replacesAll?: boolean;
}

/**
 * Decides everything that putting a bundle in will do, before the first step.
 * @returns the decided change, or why it must not be made
 * @throws KernelError if the observed state cannot be read
 */
export async function decideChange(
  bundle: VersionedState,
  startState: StartState,
  ports: Ports,
  { changeKind, replacesAll = false }: ChangeHints = {},
): Promise<PlannedChange | Refusal> {
  const { kernel, journal } = ports;
  const { from, observed, taken } = startState;
  const wanted = withDropped(bundle.state, from.state, journal.originals);
  const owned = taken ? joinNames(chainNames(from.state), taken) : chainNames(from.state);
  const desired = adaptDesired(wanted, observed ?? {}, owned, kernel);
  // First: reading mode ipvs loads its module, and with it come its sysctls.
  const known = { ipvs: startState.ipvs && knownAfter([], startState.ipvs), nft: !observed };
  const otherPlanes = await readOtherPlanes(desired, owned, ports, from.state.nft, known);
  const { virtual } = otherPlanes;
  const conflicts = virtual ? virtualConflicts(virtual, desired, owned) : [];
  if (conflicts.length > 0) return { problems: conflicts };
  const tables = await withSysctls(startState.now, desired, ports);
  const now = from.state.nft ? { ...tables, nft: from.state.nft } : tables;
  const mayUpdate = from.number > 0 && bundle.state !== from.state;
  const given = mayUpdate ? changeKind : 'release';
  const kind: ChangeClass = given ? { changeKind: given } : classify(from.state, bundle.state, replacesAll);
  return {
    ...kind,
    bundle,
    from,
    owned,
    now,
    plan: planTransaction(now, desired, { changeKind: kind.changeKind, its: kernel.switch }, kernel, otherPlanes),
    flows: flowChange({ ...now, ...(from.state.ipvs ? { ipvs: from.state.ipvs } : {}) }, desired),
    sysctls: foreignSysctls(from.state, desired, now),
    ...(virtual?.observed.timeouts && setsTimeouts(desired.ipvs ?? {}) ? { timeouts: virtual.observed.timeouts } : {}),
    ...(observed ? { observed } : {}),
    ...(journal.active === undefined && servesNothing(startState) ? { isFirst: true as const } : {}),
    ...(virtual ? { virtual } : {}),
  };
}

/** Whether no program is known to serve Services on a node that has no generation yet. */
function servesNothing({ from, observed, hasProxy }: StartState): boolean {
  if (observed === undefined || hasProxy) return false;
  return from.state.ipvs === undefined && countNames(foreignProxyChains(observed, {})) === 0;
}

/** The present values of sysctls that the desired state sets and the active generation does not. */
export function foreignSysctls(from: NodeState, desired: NodeState, now: NodeState): NodeState['sysctls'] {
  const keys = [...desired.sysctls.keys()].filter((key) => !from.sysctls.has(key));
  return new Map(
    keys.flatMap((key) => {
      const value = now.sysctls.get(key);
      return value === undefined ? [] : [[key, value] as const];
    }),
  );
}
