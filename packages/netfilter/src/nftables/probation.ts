import { differing } from '../layered.ts';
import { changePlacement, type PlacementChange } from './change.ts';
import { halfOf, type Placement } from './placement.ts';
import type { NftState } from './state.ts';
import { tableOptions } from './table.ts';

/** Turns the overlay off: no packet meets a release on probation any more. */
export const trialOff = 'flush set inet sluice trial4\nflush set inet sluice trial6\n';

/** A release on probation, as changes of the table. */
interface ProbationChange {
  /** The frontends that differ. */
  readonly changed: readonly string[];
  /** Its frontends beside the active ones. */
  readonly staged: PlacementChange;
  /** The release without an overlay; goes in with `trialOff`. */
  readonly confirmed: PlacementChange;
}

/**
 * The changes of a release by the switch, or of newer endpoints for one on probation.
 *
 * The lists of a changed frontend lie in the half of the slots that it does not use, so that confirming the release moves verdicts, and
 * never endpoints.
 * @param held what the table holds: the old state, on probation also the overlay
 * @param old the state to which packets return when the switch goes off
 */
export function probationChange(held: Placement, old: NftState, desired: NftState): ProbationChange {
  const changed = differing(old.frontends, desired.frontends);
  const overlay = new Map(changed.map((key) => [key, desired.frontends.get(key)] as const));
  const keys = [...differing(held.state.frontends, old.frontends), ...changed, ...held.overlay.keys()];
  const staged = changePlacement(held, { state: old, inHalfB: held.inHalfB, overlay }, keys);
  const inHalfB = onlyOf(withSwapped(held.inHalfB, changed), desired);
  const confirmed = changePlacement(staged.afterLate, { state: desired, inHalfB, overlay: new Map() }, changed);
  return { changed, staged, confirmed };
}

/**
 * The change of a table to another state with the same text of the table, each frontend in its half: packets meet it at once.
 * @returns also how many frontends change
 */
export function changeInPlace(
  held: Placement,
  desired: NftState,
): { readonly change: PlacementChange; readonly count: number } {
  const changed = differing(held.state.frontends, desired.frontends);
  const keys = [...changed, ...held.overlay.keys()];
  const inHalfB = onlyOf(withSwapped(held.inHalfB, movedForCounts(held, changed)), desired);
  const target = { state: desired, inHalfB, overlay: new Map<string, undefined>() };
  return { change: changePlacement(held, target, keys), count: new Set(keys).size };
}

/**
 * Frontends whose new list goes into the other half, because endpoints are counted: the old one is complete then, and is read when no packet
 * meets it any more. A replaced element would lose what it counted since it was read. On probation the other half is in use.
 */
function movedForCounts({ state, overlay }: Placement, changed: readonly string[]): readonly string[] {
  return tableOptions(state.settings).endpointCounters === true
    ? changed.filter((key) => state.frontends.has(key) && !overlay.has(key))
    : [];
}

/** Each of the frontends in its other half. */
function withSwapped(inHalfB: Placement['inHalfB'], keys: readonly string[]): Placement['inHalfB'] {
  const swapped = new Map(inHalfB);
  for (const key of keys) {
    if (halfOf({ inHalfB }, key) === 'a') swapped.set(key, true);
    else swapped.delete(key);
  }
  return swapped;
}

function onlyOf(inHalfB: Placement['inHalfB'], { frontends }: NftState): Placement['inHalfB'] {
  return [...inHalfB.keys()].every((key) => frontends.has(key))
    ? inHalfB
    : new Map([...inHalfB].filter(([key]) => frontends.has(key)));
}

/**
 * Whether the switch can bring packets from one state to another: the table and the sets of the profile have no overlay. Ports of
 * health checks are no rules.
 */
export function isBySwitch(from: NftState, to: NftState): boolean {
  const read = ({ settings }: NftState): string => settings.filter((one) => !one.startsWith('health ')).join('\n');
  return read(from) === read(to) && differing(from.frontends, to.frontends).length > 0;
}
