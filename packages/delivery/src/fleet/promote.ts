import { compareText, type Problem, refusal } from '@sluice/netfilter';
import type { Receipt, Wave } from '@sluice/bundle';
import { failingProbes, type FleetStatus, type FleetRow } from './fleet.ts';

/** The decision on the next wave of a release. */
export type Promotion =
  | {
      readonly kind: 'open';
      readonly wave: Wave;
      /** The number of open waves afterwards. */
      readonly open: number;
      /** The newest receipt of a node of the open waves that runs the release; undefined: there is none. */
      readonly youngest: Receipt | undefined;
    }
  | { readonly kind: 'all-open' /** Failures of nodes. */; readonly problems: readonly Problem[] }
  | {
      readonly kind: 'not-ready';
      readonly problems: readonly Problem[];
      /** A node has failed, or was confirmed with failing probes: time alone changes nothing. */
      readonly isBlocked: boolean;
    };

/** The maximum number of named nodes; the others are counted. */
const namedMax = 20;

/**
 * Decides whether the next wave may open: the nodes of the open waves must report that they run the release. A failure always prevents it,
 * also that of a rehearsal in a closed wave; the quorum only covers nodes without a result. So does a confirmation with failing probes,
 * unless an operator accepts these.
 * @param quorum the share of nodes in open waves that must report success, in percent, 1 to 100
 */
export function promote(
  waves: readonly Wave[],
  open: number,
  fleet: FleetStatus,
  { quorum, acceptFailing = false }: { readonly quorum: number; readonly acceptFailing?: boolean | undefined },
): Promotion {
  const wave = waves[open];
  const asked = new Set(waves.slice(0, open).flatMap(({ nodes }) => nodes));
  const rows = fleet.rows.filter(({ node }) => asked.has(node));
  const yes = rows.filter(({ state }) => state === 'runs');
  const no = fleet.rows.filter((row) => (asked.has(row.node) ? reportsFailure(row) : refusedRehearsal(row, fleet)));
  const failing = acceptFailing ? [] : yes.filter((row) => failingProbes(row).length > 0);
  const because = (cannot?: string): readonly Problem[] => [
    ...problemsOf(no, cannot),
    ...problemsOf(failing, cannot).map((problem) => ({ ...problem, hint: acceptHint })),
  ];
  if (wave === undefined) return { kind: 'all-open', problems: because('Cannot complete the release') };
  const missing = rows.filter((row) => row.state !== 'runs' && !reportsFailure(row));
  // Integer arithmetic: as floating point, 7 % of 100 nodes would be slightly more than 7.
  const isEnough = yes.length * 100 >= asked.size * quorum;
  const against = because();
  if (against.length === 0 && isEnough) return { kind: 'open', wave, open: open + 1, youngest: youngestOf(yes) };
  const problems = [...against, ...(isEnough ? [] : problemsOf(missing))];
  return { kind: 'not-ready', problems, isBlocked: against.length > 0 };
}

const youngestOf = (rows: readonly FleetRow[]): Receipt | undefined =>
  rows
    .flatMap(({ receipt }) => receipt ?? [])
    .toSorted((a, b) => compareText(a.at, b.at))
    .at(-1);

function reportsFailure({ state }: FleetRow): boolean {
  return ['held', 'rolled-back', 'partial', 'refused', 'by-hand'].includes(state);
}

/** Whether a node of a closed wave refused exactly this release; receipts about other releases and updates do not count. */
function refusedRehearsal({ state, receipt }: FleetRow, { digest }: FleetStatus): boolean {
  return (state === 'refused' || state === 'rolled-back') && receipt?.release?.digest === digest;
}

function problemsOf(rows: readonly FleetRow[], cannot = 'Cannot open the next wave'): readonly Problem[] {
  const named = rows
    .slice(0, namedMax)
    .map((row) => notReady(cannot, `${row.node} is ${words[row.state]}: ${row.why ?? ''}`));
  const rest = rows.length - named.length;
  return rest === 0 ? named : [...named, notReady(cannot, `${rest} more nodes are not ready`)];
}

const words = {
  held: 'halted',
  'rolled-back': 'rolled back',
  partial: 'without some of its Services',
  refused: 'refusing',
  'by-hand': 'on rules chosen by an operator',
  silent: 'silent',
  behind: 'behind',
  waits: 'waiting although its wave is open',
  runs: 'confirmed',
} as const satisfies Record<FleetRow['state'], string>;

const acceptHint =
  'These probes failed before the release, too. Look at them on the node; --accept-failing goes on nonetheless';

const notReady = (cannot: string, why: string): Problem =>
  refusal(
    'WAVE_NOT_READY',
    `${cannot}: ${why}`,
    'Fix the node, or make a release that works there; `sluice fleet` shows all nodes. Missing receipts may still be in transit',
  );
