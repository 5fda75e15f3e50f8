import type { Severity } from '../../report/severity.ts';

/** A severity has a shape as well as a colour: outlines in a field of 16 × 16, and the sign of Markdown, where a page cannot draw. */
export const shapes = {
  'last-endpoint': { path: 'M5 1h6l4 4v6l-4 4H5l-4-4V5z', sign: '🛑', name: 'octagon, red' },
  opens: { path: 'M8 1.2 15.6 14.8H.4z', sign: '🔺', name: 'triangle that points up, orange' },
  'source-address': { path: 'M8 .4 15.6 8 8 15.6.4 8z', sign: '🔶', name: 'diamond, violet' },
  connections: {
    path: 'M3.4 1 8 5.6 12.6 1 15 3.4 10.4 8 15 12.6 12.6 15 8 10.4 3.4 15 1 12.6 5.6 8 1 3.4z',
    sign: '❌',
    name: 'cross, pink',
  },
  closes: { path: 'M.4 1.2h15.2L8 14.8z', sign: '🔻', name: 'triangle that points down, amber' },
  moves: { path: 'M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1z', sign: '🔵', name: 'circle, blue' },
  adds: { path: 'M5.8 1h4.4v4.8H15v4.4h-4.8V15H5.8v-4.8H1V5.8h4.8z', sign: '➕', name: 'plus, green' },
  settings: { path: 'M1.5 1.5h13v13h-13zM5 5v6h6V5z', sign: '⬜', name: 'hollow square, grey' },
} as const satisfies Record<Severity, { readonly path: string; readonly sign: string; readonly name: string }>;

/** The outlines as symbols, which the page uses by `#shape-opens`. */
export function shapeSymbols(): string {
  const symbols = Object.entries(shapes).map(
    ([severity, { path }]) =>
      `<symbol id="shape-${severity}" viewBox="0 0 16 16"><path fill-rule="evenodd" d="${path}"/></symbol>`,
  );
  return `<svg class="symbols" aria-hidden="true">${symbols.join('')}</svg>\n`;
}

/** A shape in its colour. The text beside it says the same. */
export const shapeMark = (severity: Severity): string =>
  `<svg class="shape ${severity}" aria-hidden="true"><use href="#shape-${severity}"/></svg>`;
