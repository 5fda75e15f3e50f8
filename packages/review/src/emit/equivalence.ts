import { columns, document } from '@sluice/cli';
import { problemCodes, plural } from '@sluice/netfilter';
import type { Comparison, FoundDifference } from '../prove/equivalence.ts';
import type { FlowRow } from '../flows/flows.ts';
import { destinationText, nodesText, outcomeText, sourceText } from '../report/words.ts';

/** The maximum number of unexplained flows in the text; it counts the rest, and JSON has all. */
const shownMax = 100;

/** Prints comparisons of modes and layouts; the last line says whether they are equivalent. */
export function printComparisons(comparisons: readonly Comparison[], format: 'text' | 'json'): string {
  const wrong = comparisons.reduce((sum, { unexplained }) => sum + unexplained.length, 0);
  if (format === 'json') return document('Comparisons', { alike: wrong === 0, comparisons });
  const last = wrong === 0 ? 'All modes and layouts are equivalent' : plural(wrong, 'unexplained flow');
  return [...comparisons.map(printComparison), `${last}\n`].join('');
}

function printComparison(comparison: Comparison): string {
  const { kind, between, profile, family, nodes, flows, differences, unexplained } = comparison;
  const what = kind === 'layouts' ? `profile ${profile}, layouts` : 'profiles';
  const on = `traced on ${nodes.join(', ')} of profile ${profile}`;
  const shown = unexplained.slice(0, shownMax).map((row) => printRow(between, row));
  const more = unexplained.length - shown.length;
  return [
    `${what} ${between.join(' and ')}, ${family}, ${plural(flows, 'flow')} ${on}\n`,
    ...differences.map((difference) => printDifference(between, difference)),
    ...shown,
    more > 0 ? `… and ${more} more; -o json has all\n` : '',
  ].join('');
}

function printDifference(between: Comparison['between'], { code, flows, example }: FoundDifference): string {
  return `    ${code}: ${problemCodes[code]} (${plural(flows, 'flow')})\n${printRow(between, example)}`;
}

function printRow([first, second]: Comparison['between'], { destination, source, nodes, outcomes }: FlowRow): string {
  const services = destination.services.join(', ') || 'other traffic';
  const head = `        ${services} ${destinationText(destination)} from ${sourceText(source)}, on ${nodesText(nodes)}\n`;
  const found = [first, second].map((name, at) => [`            ${name}`, outcomeText(outcomes[at]!)]);
  return `${head}${columns(found)}`;
}
