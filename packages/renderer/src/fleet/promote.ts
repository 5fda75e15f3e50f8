import type { Problem, Wave } from '@sluice/bundle';
import type { Fleet, FleetRow } from './fleet.ts';

/** What is to be done with the waves of a release. */
export type Promotion =
  | { readonly kind: 'open'; readonly wave: Wave /** How many are open then. */; readonly open: number }
  | { readonly kind: 'all-open' /** The nodes that say no. */; readonly problems: readonly Problem[] }
  | { readonly kind: 'not-ready'; readonly problems: readonly Problem[] };

/** A rollout that stops says which nodes it waits for, not a thousand of them. */
const namedMax = 20;

/**
 * Whether the next wave may open: every node of the open ones has said that it runs the release. A node that says no always stops it,
 * also one whose wave is shut and which has only rehearsed it; of those that say nothing, so many may be missing as the quorum leaves.
 * @param quorum how many of the nodes of open waves must have said yes, in whole per cent, 1 to 100
 */
export function promote(waves: readonly Wave[], open: number, fleet: Fleet, quorum: number): Promotion {
  const wave = waves[open];
  const asked = new Set(waves.slice(0, open).flatMap(({ nodes }) => nodes));
  const rows = fleet.rows.filter(({ node }) => asked.has(node));
  const yes = rows.filter(({ state }) => state === 'runs');
  const no = fleet.rows.filter((row) => (asked.has(row.node) ? saysNo(row) : refusesIt(row, fleet)));
  if (wave === undefined) return { kind: 'all-open', problems: tell(no, 'Cannot call the release done') };
  const missing = rows.filter((row) => row.state !== 'runs' && !saysNo(row));
  // In whole numbers: as a fraction 7 per cent of 100 nodes would be a little more than 7.
  const isEnough = yes.length * 100 >= asked.size * quorum;
  if (no.length === 0 && isEnough) return { kind: 'open', wave, open: open + 1 };
  return { kind: 'not-ready', problems: [...tell(no), ...(isEnough ? [] : tell(missing))] };
}

function saysNo({ state }: FleetRow): boolean {
  return state === 'held' || state === 'rolled-back' || state === 'refused' || state === 'by-hand';
}

/** Whether a node that has nothing to do yet says no to this very release. What it is on otherwise, as an update of it, is no answer. */
function refusesIt({ state, receipt }: FleetRow, { digest }: Fleet): boolean {
  return (state === 'refused' || state === 'rolled-back') && receipt?.release?.digest === digest;
}

function tell(rows: readonly FleetRow[], cannot = 'Cannot open the next wave'): readonly Problem[] {
  const named = rows
    .slice(0, namedMax)
    .map((row) => notReady(cannot, `${row.node} is ${words[row.state]}: ${row.why ?? ''}`));
  const rest = rows.length - named.length;
  return rest === 0 ? named : [...named, notReady(cannot, `${rest} more nodes are not ready`)];
}

const words = {
  held: 'held',
  'rolled-back': 'rolled back',
  refused: 'refusing',
  'by-hand': 'on what a person chose',
  silent: 'silent',
  behind: 'behind',
  waits: 'waiting, though its wave is open',
  runs: 'well',
} as const satisfies Record<FleetRow['state'], string>;

function notReady(cannot: string, why: string): Problem {
  return {
    code: 'WAVE_NOT_READY',
    level: 'error',
    message: `${cannot}: ${why}`,
    hint: 'Mend the node, or make a release that does not break it; `sluice fleet` shows all. Receipts that are missing may be on their way',
  };
}
