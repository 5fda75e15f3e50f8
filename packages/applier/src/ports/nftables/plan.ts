import {
  changeInPlace,
  nftLimits,
  type NftState,
  type Placement,
  type PlacementChange,
  probationChange,
  trialOff,
} from '@sluice/netfilter';
import { dropText, loadTable } from './repair.ts';
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
              pauseMs: nftLimits.inFlightMs,
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
  const { change, count } = changeInPlace(held, desired);
  const { first, late } = stepsOfChange(change, `${count} frontends change`);
  return { first: [...mend, ...first], late };
}

/** The step that removes the table. */
export function planNftRemoval({ exists }: Pick<NftTable, 'exists'>): readonly NftStep[] {
  return exists ? [{ kind: 'nft', text: dropText, because: 'removes the table', leadsTo: undefined }] : [];
}

/** A release on probation: its phases. */
interface NftProbation {
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
  const { changed, staged, confirmed } = probationChange(held, old, desired);
  const stage = stepsOfChange(staged, `${changed.length} frontends beside the active ones`);
  const { first: defaults, late: finish } = stepsOfChange(
    confirmed,
    'the release is the default',
    `${trialOff}${confirmed.first}`,
  );
  return { stage: [...mend, ...stage.first, ...stage.late], defaults, finish };
}
