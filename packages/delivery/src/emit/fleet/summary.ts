import { type FleetStatus, type FleetRow, type NodeRolloutState, nodeStates } from '../../fleet/fleet.ts';
import { html } from '@sluice/renderer/emit/html.ts';
import { grouped, stateWords } from './words.ts';

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
export function tilesOf({ counts }: FleetStatus): string {
  const tiles = nodeStates
    .filter((state) => counts[state] > 0)
    .map(
      (state) =>
        `<li><a class="tile ${colours[state]}" href="#${state}"><strong>${grouped(counts[state])}</strong> <span>${stateWords[state]}</span></a></li>\n`,
    );
  return tiles.length === 0 ? '' : `<ul class="tiles">\n${tiles.join('')}</ul>\n`;
}

/** The number of nodes in each state per wave; empty for a release without waves. */
export function wavesOf({ waves, rows }: FleetStatus): string {
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
