import type { WaveSpec } from '@sluice/bundle';
import { terminalText } from '@sluice/netfilter';
import type { AdoptPlan } from '../../fleet/adopt-plan.ts';

/** Prints the waves, a line for each, and the nodes in none of them with the reason. */
export function adoptPlanText({ waves, blocked }: AdoptPlan): string {
  const width = Math.max(10, ...waves.map(({ name }) => name.length));
  const lines = [
    ...waves.map(({ name, nodes }, at) => `wave ${at + 1}  ${name.padEnd(width)}  ${nodes.join(' ')}`),
    ...(blocked.length === 0 ? [] : [`in no wave: ${blocked.length}`]),
    ...blocked.map(({ node, why }) => `  ${node}  ${why}`),
  ];
  // A report may be from elsewhere, and reasons have its names and rules.
  return lines.map((line) => `${terminalText(line)}\n`).join('');
}

/** Prints a file of waves as `sluice release --wave` reads it. */
export function printWaveSpecs(waves: readonly WaveSpec[]): string {
  const lines = waves.map(({ name, nodes }) => {
    const list =
      nodes === 'rest' ? ' rest\n' : `\n${nodes.map((node) => `      - ${JSON.stringify(node)}\n`).join('')}`;
    return `  - name: ${JSON.stringify(name)}\n    nodes:${list}`;
  });
  return `apiVersion: sluice.dev/v1alpha1\nkind: Waves\nwaves:\n${lines.join('')}`;
}
