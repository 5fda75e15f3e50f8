import type { FleetStatus } from '../../fleet/fleet.ts';
import { htmlPage } from '../html-page.ts';
import { html } from '../html-text.ts';
import { pageScript, pageStyle } from './page.generated.ts';
import { stateSections } from './state-sections.ts';
import { grouped, headline, nodesText, servingLine } from './words.ts';
import { tilesOf, wavesOf } from './summary.ts';

/** The maximum number of named nodes without a key; more are counted. */
const foreignNodesNamedMax = 100;

const filter =
  '<div id="filter" role="search" hidden><input id="search" type="search" placeholder="node, reason, wave, state" aria-label="Filter nodes"> <span id="hits" class="quiet" role="status"></span></div>\n';

/**
 * Prints the fleet as one page: the counts, then nodes with problems, then the others, folded. The script is only for the filter.
 * @param folder of the receipts, as a path relative to the folder of the page
 */
export function fleetHtml(fleet: FleetStatus, folder: string): string {
  const body = [
    `<main>\n<h1>${html(headline(fleet))}</h1>\n`,
    fleet.digest === null ? '' : `<p class="quiet">digest <code class="digest">${html(fleet.digest)}</code></p>\n`,
    fleet.rows.length === 0 ? '' : `<p class="serving">${html(servingLine(fleet))}</p>\n`,
    tilesOf(fleet),
    wavesOf(fleet),
    filter,
    stateSections(fleet, folder),
    foreignNodesOf(fleet),
    '</main>\n',
  ];
  return htmlPage({
    title: `Sluice: ${headline(fleet)}`,
    body: body.join(''),
    style: pageStyle,
    script: pageScript,
  });
}

function foreignNodesOf({ foreignNodes }: FleetStatus): string {
  if (foreignNodes.length === 0) return '';
  const named = foreignNodes.slice(0, foreignNodesNamedMax).join(', ');
  const rest =
    foreignNodes.length > foreignNodesNamedMax
      ? ` and ${grouped(foreignNodes.length - foreignNodesNamedMax)} more`
      : '';
  return `<h2 class="late">Not in allowed_receipts</h2>\n<p>Receipts of ${nodesText(foreignNodes.length)} are ignored because their keys are not known: ${html(named)}${rest}</p>\n`;
}
