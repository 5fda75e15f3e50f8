import { ipvsConflicts } from '../ipvs/conflicts.ts';
import { joinIpvsNames, knownAfter, ownedNames } from '../ipvs/values.ts';
import { flowChange } from '../rollout/flows.ts';
import { adaptDesired } from '../rollout/own.ts';
import type { Flip, ChangeKind, Ports, Refusal } from '../rollout/ports.ts';
import { withDropped, withSysctls } from '../rollout/restore.ts';
import { type ChainNames, chainNames, type NodeState } from '../rollout/state.ts';
import { lookVirtual, setsTimeouts, type Virtual } from '../rollout/virtual.ts';
import { isTree } from './entries.ts';
import type { StartState } from './start-state.ts';
import { type ChangeClass, classify } from './change-kind.ts';
import type { Change, Target } from './transaction.ts';
import { wayTo } from './way.ts';

/** What is known of a change besides its rules. */
export interface Known {
  /** Old endpoints come back as an update, however many they are. */
  readonly changeKind?: ChangeKind;
  /** Keys for endpoints may replace all endpoints of a Service: other bounds hold for them (`refuseOutside`). */
  readonly replacesAll?: boolean;
}

/**
 * Everything that putting a bundle in will do, decided before the first step; or why it must not be done.
 * @param known what of the change is not to be told from its rules
 */
export async function decideChange(
  bundle: Target,
  startState: StartState,
  ports: Ports,
  { changeKind, replacesAll = false }: Known = {},
): Promise<Change | Refusal> {
  const { kernel, journal } = ports;
  const { from, observed } = startState;
  const wanted = withDropped(bundle.state, from.state, journal.originals);
  const owned = chainNames(from.state);
  const desired = adaptDesired(wanted, observed ?? {}, owned, kernel);
  // First: the look loads the module of mode ipvs, and with it come its sysctls.
  const virtual = await lookVirtual(desired, owned, ports, startState.ipvs && knownAfter([], startState.ipvs));
  const conflicts = conflictsOf(desired, owned, virtual);
  if (conflicts) return conflicts;
  const now = await withSysctls(startState.now, desired, ports);
  const flip: Flip = isTree(desired) && kernel.switch ? 'switch' : 'ordered';
  const mayUpdate = from.number > 0 && bundle.state !== from.state;
  const told = mayUpdate ? changeKind : 'release';
  const kind: ChangeClass = told ? { changeKind: told } : classify(from.state, bundle.state, replacesAll);
  return {
    ...kind,
    bundle,
    from,
    owned,
    now,
    way: wayTo(now, desired, { changeKind: kind.changeKind, flip }, kernel, virtual?.plan),
    flows: flowChange({ ...now, ...(from.state.ipvs ? { ipvs: from.state.ipvs } : {}) }, desired),
    sysctls: foreignSysctls(from.state, desired, now),
    ...(virtual?.seen.timeouts && setsTimeouts(desired.ipvs ?? {}) ? { timeouts: virtual.seen.timeouts } : {}),
    ...(observed ? { observed } : {}),
    ...(virtual ? { virtual } : {}),
  };
}

/** Virtual servers and sets of the desired state that somebody else made. */
function conflictsOf(desired: NodeState, owned: ChainNames, virtual: Virtual | undefined): Refusal | undefined {
  if (!virtual || !desired.ipvs) return undefined;
  const problems = ipvsConflicts(virtual.seen, desired.ipvs, ownedNames(joinIpvsNames(owned.ipvs)));
  return problems.length === 0 ? undefined : { problems };
}

/** The values that sysctls of the desired state have now, of those that the standing generation does not set. */
export function foreignSysctls(from: NodeState, desired: NodeState, now: NodeState): NodeState['sysctls'] {
  const keys = [...desired.sysctls.keys()].filter((key) => !from.sysctls.has(key));
  return new Map(
    keys.flatMap((key) => {
      const value = now.sysctls.get(key);
      return value === undefined ? [] : [[key, value] as const];
    }),
  );
}
