import type { Effect } from '../../review/report/effect.ts';
import { severities, severityLabels } from '../../review/report/severity.ts';
import { severityCounts } from './effects-view.ts';
import { shapes } from './shapes.ts';

/** The severities that a change has, with their counts; empty without an effect. */
export function severityTable(effects: readonly Effect[]): readonly string[] {
  if (effects.length === 0) return [];
  const counts = severityCounts(effects);
  const rows = severities
    .filter((severity) => counts[severity] > 0)
    .map((severity) => `| ${shapes[severity].sign} | ${counts[severity]} | ${severityLabels[severity]} |`);
  return ['| | | |', '|---|--:|---|', ...rows, ''];
}
