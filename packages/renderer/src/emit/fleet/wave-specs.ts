import type { WaveSpec } from '@sluice/bundle';

/** Prints a file of waves as `sluice release --wave` reads it. */
export function printWaveSpecs(waves: readonly WaveSpec[]): string {
  const lines = waves.map(({ name, nodes }) => {
    const list =
      nodes === 'rest' ? ' rest\n' : `\n${nodes.map((node) => `      - ${JSON.stringify(node)}\n`).join('')}`;
    return `  - name: ${JSON.stringify(name)}\n    nodes:${list}`;
  });
  return `apiVersion: sluice.dev/v1alpha1\nkind: Waves\nwaves:\n${lines.join('')}`;
}
