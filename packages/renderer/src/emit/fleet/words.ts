import { type FleetStatus, type FleetRow, type NodeRolloutState, servingWords } from '../../fleet/fleet.ts';

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
export function servingLine({ serving }: FleetStatus): string {
  const parts = Object.entries(serving).map(([words, count]) => `${grouped(count)} ${words}`);
  return parts.length === 0 ? '' : `served by: ${parts.join('; ')}`;
}

/** The cells of a row: node, wave, state, who serves, active generation, time of the receipt, reason. */
export function cellsOf(row: FleetRow): readonly string[] {
  const { node, wave, state, receipt, why } = row;
  return [
    node,
    wave === null ? '-' : String(wave),
    stateWords[state],
    servingWords(row),
    generationOf(row),
    receipt?.at ?? '-',
    why ?? '',
  ];
}

/** The active generation of the node and its version. */
export function generationOf({ receipt }: FleetRow): string {
  const standing = receipt?.standing;
  return standing ? `${standing.generation} ${standing.version}` : '-';
}

/** A count with thousands separators. */
export function grouped(count: number): string {
  return String(count).replaceAll(/\B(?=(?:\d{3})+$)/g, ',');
}

/** `1 node`, `2 nodes`. */
export function nodesText(nodes: number): string {
  return nodes === 1 ? '1 node' : `${grouped(nodes)} nodes`;
}
