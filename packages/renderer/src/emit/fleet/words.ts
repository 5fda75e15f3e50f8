import type { Fleet, FleetRow, NodeState } from '../../fleet/fleet.ts';

/** Each state as people read it. */
export const stateWords = {
  held: 'held',
  'rolled-back': 'rolled back',
  refused: 'refused',
  'by-hand': 'by hand',
  silent: 'silent',
  behind: 'behind',
  waits: 'waits',
  runs: 'runs',
} as const satisfies Record<NodeState, string>;

/** The whole fleet in one line. */
export function headline({ serial, cluster, counts, rows }: Fleet): string {
  if (serial === null) return `no receipt speaks of a release; ${rows.length} nodes are known`;
  return `release ${serial} of ${cluster}: ${counts.runs} of ${rows.length} nodes run it`;
}

/** The cells of a row: node, wave, state, what stands, since when, why. */
export function cellsOf({ node, wave, state, receipt, why }: FleetRow): readonly string[] {
  const standing = receipt?.standing;
  const stands = standing ? `${standing.generation} ${standing.version}` : '-';
  return [node, wave === null ? '-' : String(wave), stateWords[state], stands, receipt?.at ?? '-', why ?? ''];
}

/** `1 node`, `2 nodes`. */
export function nodesText(nodes: number): string {
  return nodes === 1 ? '1 node' : `${nodes} nodes`;
}
