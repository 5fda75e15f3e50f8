import { columns } from '@sluice/cli';
import type { FleetStatus } from '../../fleet/fleet.ts';
import { cellsOf, headline, nodesText, servingLine } from './words.ts';

const foreignNodesNamedMax = 10;

/** Prints the fleet as text: one line for each node, the worst first. */
export function fleetText(fleet: FleetStatus): string {
  const waves = fleet.waves.map(
    ({ name, nodes, isOpen }, index) =>
      `wave ${index + 1} (${name}, ${nodesText(nodes)}) is ${isOpen ? 'open' : 'closed'}\n`,
  );
  const rows = [['NODE', 'WAVE', 'STATE', 'SERVED BY', 'GENERATION', 'REPORTED AT', 'WHY'], ...fleet.rows.map(cellsOf)];
  const served = servingLine(fleet);
  return `${headline(fleet)}\n${served === '' ? '' : `${served}\n`}${waves.join('')}\n${columns(rows)}${foreignNodesText(fleet)}`;
}

function foreignNodesText({ foreignNodes }: FleetStatus): string {
  if (foreignNodes.length === 0) return '';
  const named = foreignNodes.slice(0, foreignNodesNamedMax).join(', ');
  const rest =
    foreignNodes.length > foreignNodesNamedMax ? ` and ${foreignNodes.length - foreignNodesNamedMax} more` : '';
  return `\nignored receipts of nodes that are not in allowed_receipts: ${named}${rest}\n`;
}
