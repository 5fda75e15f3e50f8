import { compareText } from '@sluice/netfilter';
import { capital, html, htmlPage } from '@sluice/renderer/emit/html.ts';
import { type FleetRow, type FleetStatus, type NodeRolloutState, nodeStates } from '../../fleet/fleet.ts';
import { pageScript, pageStyle } from './page.generated.ts';
import { columnsOf, type FleetColumn, grouped, headline, headLines, nodesText, stateWords } from './words.ts';

/** The maximum number of unfolded nodes with a reason; the others are folded, to keep the page fast. */
const shownMax = 100;
/** The most frequent reasons of a state are counted, where it has this many nodes or more. */
const reasonsMax = 5;
const countedMin = 10;

const meanings = {
  held: 'Automatic work has stopped on these nodes; manual intervention required.',
  'rolled-back': 'The release failed on these nodes, and they returned to the previous rules.',
  partial: 'These nodes run the release without some Services, whose probes failed; these stay as before.',
  refused: 'These nodes refused the release; nothing changed on them.',
  'by-hand': 'An operator activated other rules on these nodes.',
  silent: 'These nodes have no valid receipt.',
  behind: 'The last receipts of these nodes are about another release.',
  waits: 'The wave of these nodes is not open, and they run their previous release without problems.',
  runs: 'These nodes run the release.',
} as const satisfies Record<NodeRolloutState, string>;

/**
 * The nodes by state, the worst first, then by name. Nodes without a reason are folded.
 * @param folder of the receipts, as a path relative to the folder of the page
 */
function stateSections({ rows, waves }: FleetStatus, folder: string): string {
  const byState = Map.groupBy(rows, ({ state }) => state);
  const table = tableWith(
    folder,
    waves.map(({ name }) => name),
  );
  return nodeStates.map((state) => section(state, byState.get(state) ?? [], table)).join('');
}

type Table = (rows: readonly FleetRow[]) => string;

function section(state: NodeRolloutState, rows: readonly FleetRow[], table: Table): string {
  if (rows.length === 0) return '';
  const [explained, plain] = [rows.filter(({ why }) => why !== null), rows.filter(({ why }) => why === null)];
  const rest = explained.slice(shownMax);
  return [
    `<section id="${state}">\n<h2 class="${colours[state]}">${grouped(rows.length)} ${stateWords[state]}</h2>\n`,
    `<p class="quiet">${meanings[state]}</p>\n`,
    reasonsOf(explained),
    table(explained.slice(0, shownMax)),
    folded(`and ${grouped(rest.length)} more`, table(rest)),
    folded(explained.length === 0 ? nodesText(plain.length) : `and ${grouped(plain.length)} more`, table(plain)),
    '</section>\n',
  ].join('');
}

function folded(summary: string, content: string): string {
  return content === '' ? '' : `<details>\n<summary>${summary}</summary>\n${content}</details>\n`;
}

/** The most frequent reasons, each once with a count. */
function reasonsOf(rows: readonly FleetRow[]): string {
  if (rows.length < countedMin) return '';
  const counts = [...Map.groupBy(rows, ({ why }) => why ?? '')]
    .map(([why, { length }]) => ({ why, count: length }))
    .toSorted((a, b) => b.count - a.count || compareText(a.why, b.why));
  const items = counts.slice(0, reasonsMax).map(({ why, count }) => `<li>${grouped(count)} × ${html(why)}</li>\n`);
  const others = counts.slice(reasonsMax).reduce((sum, { count }) => sum + count, 0);
  const rest = others === 0 ? '' : `<li class="quiet">${nodesText(others)} for other reasons</li>\n`;
  return `<ul class="reasons">\n${items.join('')}${rest}</ul>\n`;
}

function tableWith(folder: string, waves: readonly string[]): Table {
  const cellOf = ({ name, cell }: FleetColumn, row: FleetRow): string => {
    if (name === 'node') return linkOf(row, folder);
    return html(name === 'wave' && row.wave !== null ? `${row.wave} ${waves[row.wave - 1]}` : cell(row));
  };
  return (rows) => {
    if (rows.length === 0) return '';
    const columns = columnsOf(rows).filter(({ name }) => name !== 'state');
    const head = columns.map(({ title }) => `<th scope="col">${title}</th>`).join('');
    const cells = (row: FleetRow): string =>
      columns.map((column) => `<td class="${column.name}">${cellOf(column, row)}</td>`).join('');
    return `<table>\n<thead><tr>${head}</tr></thead>\n<tbody>\n${rows.map((row) => `<tr>${cells(row)}</tr>\n`).join('')}</tbody>\n</table>\n`;
  };
}

/** The name of the node with a link to its receipt. A long name may break at its dots. */
function linkOf({ node, file }: FleetRow, folder: string): string {
  const name = html(node).replaceAll('.', '.<wbr>');
  return file === null ? name : `<a href="${html(hrefOf(folder, file))}">${name}</a>`;
}

/** A relative URL: each part is encoded, so that a folder name is not parsed as a scheme, a query or a host. */
function hrefOf(folder: string, file: string): string {
  const parts = `${folder}/${file}`.split('/').filter((part) => part !== '');
  return parts.map((part) => encodeURIComponent(part.toWellFormed())).join('/');
}

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
    `<header>\n<p class="sides"><b>Sluice</b> read the receipts of ${nodesText(fleet.rows.length)}`,
    fleet.digest === null ? '' : ` about the release <code class="digest">${html(fleet.digest)}</code>`,
    `</p>\n<h1>${html(headline(fleet))}</h1>\n`,
    ...headLines(fleet).map(
      (line) => `<p class="verdict${line.startsWith('next: ') ? ' next' : ''}">${html(capital(line))}</p>\n`,
    ),
    tilesOf(fleet),
    '</header>\n<main>\n',
    wavesOf(fleet),
    filter,
    stateSections(fleet, folder),
    foreignNodesOf(fleet),
    '</main>\n<footer>Made by sluice from signed receipts alone: it knows nothing after the newest one. Times are of the clocks of the nodes.</footer>\n',
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

/** Colours accompany the words and never replace them. */
export const colours = {
  held: 'bad',
  'rolled-back': 'bad',
  partial: 'bad',
  refused: 'bad',
  'by-hand': 'bad',
  silent: 'late',
  behind: 'late',
  waits: 'good',
  runs: 'good',
} as const satisfies Record<NodeRolloutState, string>;

/** The number of nodes in each state, with links to them. */
function tilesOf({ counts }: FleetStatus): string {
  const tiles = nodeStates
    .filter((state) => counts[state] > 0)
    .map(
      (state) =>
        `<li><a class="tile ${colours[state]}" href="#${state}"><strong>${grouped(counts[state])}</strong> <span>${stateWords[state]}</span></a></li>\n`,
    );
  return tiles.length === 0 ? '' : `<ul class="tiles">\n${tiles.join('')}</ul>\n`;
}

/** The number of nodes in each state per wave; empty for a release without waves. */
function wavesOf({ waves, rows }: FleetStatus): string {
  if (waves.length === 0) return '';
  const byWave = Map.groupBy(rows, ({ wave }) => wave);
  const lines = waves.map(({ name, isOpen }, index) =>
    waveLine(`${index + 1} ${name}`, isOpen ? 'open' : 'closed', byWave.get(index + 1) ?? []),
  );
  const others = byWave.get(null);
  if (others !== undefined) lines.push(waveLine('none', '-', others));
  const head = ['Wave', 'State', 'Nodes', 'By state'].map((name) => `<th scope="col">${name}</th>`).join('');
  return `<table class="waves">\n<thead><tr>${head}</tr></thead>\n<tbody>\n${lines.join('')}</tbody>\n</table>\n`;
}

function waveLine(name: string, is: string, rows: readonly FleetRow[]): string {
  const counts = nodeStates.flatMap((state) => {
    const count = rows.filter((row) => row.state === state).length;
    return count === 0 ? [] : [`<span class="${colours[state]}">${grouped(count)} ${stateWords[state]}</span>`];
  });
  return `<tr><td>${html(name)}</td><td>${is}</td><td>${grouped(rows.length)}</td><td>${counts.join(', ')}</td></tr>\n`;
}
