import { hash } from 'node:crypto';
import { type Fleet, nodeStates } from '../../fleet/fleet.ts';
import { html } from '../report/html-text.ts';
import { cellsOf, headline, nodesText, stateWords } from './words.ts';

const style = `
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { margin: 2rem auto; max-width: 75rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; }
ul { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: .5rem; }
li { border: 1px solid #8888; border-radius: .4rem; padding: .2rem .7rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .3rem .6rem; border-bottom: 1px solid #8884; overflow-wrap: anywhere; }
td:nth-child(4), td:nth-child(5) { font-family: ui-monospace, monospace; font-size: .85rem; }
.bad { border-left: .4rem solid #c62828; font-weight: 600; }
.late { border-left: .4rem solid #b26a00; }
.good { border-left: .4rem solid #2e7d32; }
`;

/** Red, amber and green stand beside the word, never in its place. */
const colours = {
  held: 'bad',
  'rolled-back': 'bad',
  refused: 'bad',
  'by-hand': 'bad',
  silent: 'late',
  behind: 'late',
  waits: 'good',
  runs: 'good',
} as const satisfies Record<(typeof nodeStates)[number], string>;

/** The fleet as one page that needs no network and runs no script: its policy lets in its own style and nothing else. */
export function fleetHtml(fleet: Fleet): string {
  const title = html(`Sluice: ${headline(fleet)}`);
  const policy = `default-src 'none'; style-src 'sha256-${hash('sha256', style, 'base64')}'; base-uri 'none'; form-action 'none'`;
  return [
    '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
    `<meta http-equiv="Content-Security-Policy" content="${policy}">\n`,
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
    '<meta name="referrer" content="no-referrer">\n<meta name="robots" content="noindex">\n',
    `<title>${title}</title>\n<style>${style}</style>\n</head>\n<body>\n<main>\n`,
    `<h1>${html(headline(fleet))}</h1>\n`,
    countsOf(fleet),
    wavesOf(fleet),
    tableOf(fleet),
    strangersOf(fleet),
    '</main>\n</body>\n</html>\n',
  ].join('');
}

function countsOf({ counts }: Fleet): string {
  const items = nodeStates
    .filter((state) => counts[state] > 0)
    .map((state) => `<li class="${colours[state]}">${counts[state]} ${stateWords[state]}</li>\n`);
  return `<ul>\n${items.join('')}</ul>\n`;
}

function wavesOf({ waves }: Fleet): string {
  if (waves.length === 0) return '';
  const items = waves.map(
    ({ name, nodes, isOpen }, index) =>
      `<li>wave ${index + 1} (${html(name)}, ${nodesText(nodes)}) is ${isOpen ? 'open' : 'shut'}</li>\n`,
  );
  return `<ul>\n${items.join('')}</ul>\n`;
}

function tableOf({ rows }: Fleet): string {
  const body = rows.map((row) => {
    const cells = cellsOf(row).map((cell, column) =>
      column === 2 ? `<td class="${colours[row.state]}">${html(cell)}</td>` : `<td>${html(cell)}</td>`,
    );
    return `<tr>${cells.join('')}</tr>\n`;
  });
  const head = ['Node', 'Wave', 'State', 'Stands', 'Said at', 'Why'].map((name) => `<th scope="col">${name}</th>`);
  return `<table>\n<thead><tr>${head.join('')}</tr></thead>\n<tbody>\n${body.join('')}</tbody>\n</table>\n`;
}

function strangersOf({ strangers }: Fleet): string {
  if (strangers.length === 0) return '';
  return `<p>Not in allowed_receipts, so no evidence: ${html(strangers.join(', '))}</p>\n`;
}
