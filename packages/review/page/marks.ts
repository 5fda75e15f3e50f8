import { severityLabels, type Severity } from '../src/report/severity.ts';
import type { PageEndpoint } from '../src/emit/report/data.ts';
import { element, shape } from './element.ts';

/** Signs beside the colours, for readers who do not see them. */
export const fateSigns = { same: '=', added: '+', removed: '−', changed: '~' } as const;
export const fateWords = { same: 'stays', added: 'comes', removed: 'leaves' } as const satisfies Record<
  PageEndpoint['fate'],
  string
>;

/** The shape of a severity in its colour, with its words for screen readers. */
export function severityMark(severity: Severity): Node {
  return shape(
    'svg',
    { class: `shape ${severity}`, role: 'img', 'aria-label': severityLabels[severity] },
    shape('use', { href: `#shape-${severity}` }),
  );
}

/** `33.3 %`. @param share 0 to 1 */
export const percent = (share: number): string => `${Number((share * 100).toFixed(1))} %`;

/** A share as a bar with its number; a dash for none. */
export function shareBar(share: number | undefined, fate: string): HTMLElement {
  if (share === undefined) return element('span', { class: 'share none' }, '–');
  const fill = element('i', { class: fate });
  fill.style.width = `${share * 100}%`;
  return element('span', { class: 'share' }, element('span', { class: 'track' }, fill), percent(share));
}
