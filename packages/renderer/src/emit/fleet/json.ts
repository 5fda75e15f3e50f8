import type { FleetStatus } from '../../fleet/fleet.ts';

/** Prints the fleet as JSON: the rows with their states and receipts. */
export function fleetJson({ cluster, serial, waves, counts, serving, rows, foreignNodes }: FleetStatus): string {
  const document = {
    apiVersion: 'sluice.dev/v1alpha1',
    kind: 'Fleet',
    cluster,
    serial,
    counts,
    serving,
    waves,
    nodes: rows.map(({ node, wave, state, why, receipt, observed }) => ({ node, wave, state, why, receipt, observed })),
    strangers: foreignNodes,
  };
  return `${JSON.stringify(document, undefined, 2)}\n`;
}
