import { type FleetStatus, type FleetRow, type NodeRolloutState, servingWords } from '../../fleet/fleet.ts';
import { nextStep } from '../../fleet/next.ts';

/** The states as printed. */
export const stateWords = {
  held: 'halted',
  'rolled-back': 'rolled back',
  partial: 'partial',
  refused: 'refused',
  'by-hand': 'by hand',
  silent: 'silent',
  behind: 'behind',
  waits: 'waits',
  runs: 'runs',
} as const satisfies Record<NodeRolloutState, string>;

/** The whole fleet in one line. */
export function headline({ serial, cluster, counts, rows }: FleetStatus): string {
  if (serial === null) return `no receipt mentions a release; ${nodesText(rows.length)} known`;
  return `release ${serial} of ${cluster}: ${grouped(counts.runs)} of ${grouped(rows.length)} nodes run it`;
}

/** Who serves how many nodes; empty without nodes. */
function servingLine({ serving }: FleetStatus): string {
  const parts = Object.entries(serving).map(([words, count]) => `${grouped(count)} ${words}`);
  return parts.length === 0 ? '' : `served by: ${parts.join('; ')}`;
}

/** The lines below the headline: the nodes that serve, the age of the receipts, the next step. */
export function headLines(fleet: FleetStatus): readonly string[] {
  const newest = fleet.newest === null ? '' : `newest receipt: ${fleet.newest}`;
  return [servingLine(fleet), newest, `next: ${nextStep(fleet)}`].filter((line) => line !== '');
}

/** What is known of a node. */
export interface FleetColumn {
  readonly name: 'node' | 'wave' | 'state' | 'serving' | 'draining' | 'generation' | 'at' | 'why';
  readonly title: string;
  /** `-` or empty: nothing is known. */
  readonly cell: (row: FleetRow) => string;
}

const fleetColumns: readonly FleetColumn[] = [
  { name: 'node', title: 'Node', cell: ({ node }) => node },
  { name: 'wave', title: 'Wave', cell: ({ wave }) => (wave === null ? '-' : String(wave)) },
  { name: 'state', title: 'State', cell: ({ state }) => stateWords[state] },
  { name: 'serving', title: 'Served by', cell: servingWords },
  { name: 'draining', title: 'Drained by', cell: ({ receipt }) => receipt?.draining ?? '-' },
  { name: 'generation', title: 'Generation', cell: generationOf },
  { name: 'at', title: 'Reported at', cell: ({ receipt }) => receipt?.at ?? '-' },
  { name: 'why', title: 'Why', cell: ({ why }) => why ?? '' },
];

/** The columns that tell something of these nodes. */
export const columnsOf = (rows: readonly FleetRow[]): readonly FleetColumn[] =>
  fleetColumns.filter(({ name, cell }) => name === 'node' || rows.some((row) => !['-', ''].includes(cell(row))));

/** The active generation of the node and its version. */
function generationOf({ receipt }: FleetRow): string {
  const standing = receipt?.standing;
  return standing ? `${standing.generation} ${standing.version}` : '-';
}

/** A count with thousands separators. */
export const grouped = (count: number): string => String(count).replaceAll(/\B(?=(?:\d{3})+$)/g, ',');

/** `1 node`, `2 nodes`. */
export const nodesText = (nodes: number): string => (nodes === 1 ? '1 node' : `${grouped(nodes)} nodes`);
