import type { Fleet } from '../../fleet/fleet.ts';

/** Prints the fleet as JSON: the rows with their states and receipts. */
export function fleetJson({ cluster, serial, waves, counts, rows, strangers }: Fleet): string {
  const document = {
    apiVersion: 'sluice.dev/v1alpha1',
    kind: 'Fleet',
    cluster,
    serial,
    counts,
    waves,
    nodes: rows.map(({ node, wave, state, why, receipt }) => ({ node, wave, state, why, receipt })),
    strangers,
  };
  return `${JSON.stringify(document, undefined, 2)}\n`;
}
