import { differing, type NftState, tableOptions } from '@sluice/netfilter';
import { limits } from '../limits.ts';
import { changePlacement, type PlacementChange, type Target } from './change.ts';
import { halfOf, type Placement } from './placement.ts';
import { dropText, loadTable, offText } from './repair.ts';
import type { NftStep } from './values.ts';

/** The table of mode nftables at the start of a plan. */
export interface NftTable {
  /** The steps that put it in order first: after a crash, or where another program changed it. */
  readonly mend: readonly NftStep[];
  /** What it holds after these; undefined: it is none of ours, or there is none. */
  readonly held: Placement | undefined;
  /** Whether there is a table. */
  readonly exists: boolean;
}

/** The steps of a change: `first` and, when packets in flight are gone, `late`. */
export interface NftSteps {
  readonly first: readonly NftStep[];
  readonly late: readonly NftStep[];
}

const nothing: NftSteps = { first: [], late: [] };

/** A change of the table as steps. @param because of the first one */
export function stepsOfChange(
  { first, afterFirst, removes = [], late, afterLate }: PlacementChange,
  because: string,
  firstText = first,
): NftSteps {
  // What is left may all be shared with other frontends: then no later step says that it is gone.
  const leadsTo = late === '' ? afterLate : afterFirst;
  return {
    first:
      firstText === ''
        ? []
        : [{ kind: 'nft', text: firstText, because, leadsTo, ...(removes.length > 0 ? { removes } : {}) }],
    late:
      late === ''
        ? []
        : [
            {
              kind: 'nft',
              text: late,
              because: 'removes what no verdict leads to',
              pauseMs: limits.narrowPauseMs,
              leadsTo: afterLate,
            },
          ],
  };
}

/** The steps that make the table hold a state, each frontend in its half: packets meet the change at once. */
export function planNftInPlace({ mend, held, exists }: NftTable, desired: NftState): NftSteps {
  if (!held || held.state.settings[0] !== desired.settings[0]) {
    const { first } = stepsOfChange(loadTable(desired, exists), 'loads the whole table');
    return { first: [...mend, ...first], late: [] };
  }
  if (held.state === desired && held.overlay.size + held.left.size === 0) return { ...nothing, first: mend };
  const changed = differing(held.state.frontends, desired.frontends);
  const keys = [...changed, ...held.overlay.keys()];
  const inHalfB = withSwapped(held.inHalfB, movedForCounts(held, changed));
  const target: Target = { state: desired, inHalfB: onlyOf(inHalfB, desired), overlay: new Map() };
  const change = changePlacement(held, target, keys);
  const { first, late } = stepsOfChange(change, `${new Set(keys).size} frontends change`);
  return { first: [...mend, ...first], late };
}

/** The step that removes the table. */
export function planNftRemoval({ exists }: Pick<NftTable, 'exists'>): readonly NftStep[] {
  return exists ? [{ kind: 'nft', text: dropText, because: 'removes the table', leadsTo: undefined }] : [];
}

/** A release on probation: its phases. */
export interface NftProbation {
  /** Its changed frontends as an overlay, which no packet meets while the switch is off. */
  readonly stage: readonly NftStep[];
  /** Makes it what packets meet without the switch, and turns that off, in one transaction. */
  readonly defaults: readonly NftStep[];
  readonly finish: readonly NftStep[];
}

/**
 * Plans a release by the switch, or newer endpoints for one on probation.
 *
 * The lists of a changed frontend lie in the half of the slots that it does not use, so that confirming the release moves verdicts, and
 * never endpoints.
 * @param held what the table holds: the old state, on probation also the overlay
 * @param old the state to which packets return when the switch goes off
 */
export function planNftProbation(
  { mend, held }: NftTable & { readonly held: Placement },
  old: NftState,
  desired: NftState,
): NftProbation {
  const changed = differing(old.frontends, desired.frontends);
  const overlay = new Map(changed.map((key) => [key, desired.frontends.get(key)] as const));
  const keys = [...differing(held.state.frontends, old.frontends), ...changed, ...held.overlay.keys()];
  const staged = changePlacement(held, { state: old, inHalfB: held.inHalfB, overlay }, keys);
  const stage = stepsOfChange(staged, `${changed.length} frontends beside the active ones`);
  const inHalfB = onlyOf(withSwapped(held.inHalfB, changed), desired);
  const confirmed = changePlacement(staged.afterLate, { state: desired, inHalfB, overlay: new Map() }, changed);
  const { first: defaults, late: finish } = stepsOfChange(
    confirmed,
    'the release is the default',
    `${offText}${confirmed.first}`,
  );
  return { stage: [...mend, ...stage.first, ...stage.late], defaults, finish };
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
