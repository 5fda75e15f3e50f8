import type { Effect, EffectSubject } from '../../report/effect.ts';
import type { ChangeReport } from '../../report/report.ts';
import { countsText, verdictText } from '../../report/words.ts';
import { type Severity, severities, severityLabels, severityPlurals, severityWords } from '../../report/severity.ts';
import { capital, html } from '@sluice/renderer/emit/html.ts';
import { shapeMark } from './shapes.ts';

/** The maximum number of subjects of one sentence in a page. */
const subjectsMax = 500;
/** Severities in the headline. */
const headlineMax = 3;
/** A longer list stands below its sentence. */
const inlineMax = 6;
/** Lists are open, worst first, until they have this many subjects together, and the first one always; the others are folded. */
const openMax = 150;

/** How many Services and other things each severity concerns. */
export function severityCounts(effects: readonly Effect[]): Readonly<Record<Severity, number>> {
  const names = Map.groupBy(effects, ({ severity }) => severity);
  const count = (severity: Severity): number =>
    new Set((names.get(severity) ?? []).flatMap(({ subjects }) => subjects.map(({ name }) => name))).size;
  return Object.fromEntries(severities.map((severity) => [severity, count(severity)])) as Record<Severity, number>;
}

/** A tile for each severity, worst first, that leads to its sentences. */
export function severityTiles(effects: readonly Effect[]): string {
  const counts = severityCounts(effects);
  const tiles = severities.map((severity) => {
    const content = `${shapeMark(severity)}<strong>${counts[severity]}</strong><span class="long">${severityLabels[severity]}</span><span class="short">${severityWords[severity]}</span>`;
    return counts[severity] === 0
      ? `<li class="tile none">${content}</li>`
      : `<li title="${severityLabels[severity]}"><a class="tile ${severity}" href="#changes/${severity}">${content}</a></li>`;
  });
  return `<ul class="tiles" aria-label="What changes, by severity">${tiles.join('')}</ul>\n`;
}

/** The worst that a change does, in one line: `payments/ledger loses its last endpoint, 3 Services open to the outside`; empty when it is harmless. */
export function headline(effects: readonly Effect[]): string {
  const grave = severities.slice(0, severities.indexOf('moves')).flatMap((severity) => {
    const subjects = effects.filter((one) => one.severity === severity).flatMap((one) => one.subjects);
    const names = new Set(subjects.map(({ name }) => name));
    const what = subjects.every(({ isService }) => isService) ? 'Services ' : '';
    return names.size === 0 ? [] : [{ severity, names: [...names], what }];
  });
  return grave
    .slice(0, headlineMax)
    .map(({ severity, names, what }) =>
      names.length === 1
        ? `${names[0]} ${severityLabels[severity]}`
        : `${names.length} ${what}${severityPlurals[severity]}`,
    )
    .join(', ');
}

/**
 * The counts of a change below its headline, which says what loses its last endpoint; of one without a headline all that it does.
 * Empty when nothing changes.
 */
export function belowHeadline({ effects, diff }: Pick<ChangeReport, 'effects' | 'diff'>): string {
  if (headline(effects) === '') return '';
  return effects[0]?.severity === 'last-endpoint' ? countsText(diff) : verdictText(diff);
}

/** The sentences with their lists, worst first. */
export function effectsView(effects: readonly Effect[]): string {
  if (effects.length === 0) return '<p class="empty">Nothing changes.</p>\n';
  let shown = 0;
  const opened = new Set(effects.filter(({ subjects }, at) => (shown += subjects.length) <= openMax || at === 0));
  const groups = [...Map.groupBy(effects, ({ severity }) => severity)];
  return groups
    .map(
      ([severity, own]) =>
        `<section class="severity ${severity}" id="severity-${severity}" aria-labelledby="severity-${severity}-title"><h3 id="severity-${severity}-title">${shapeMark(severity)}${html(capital(severityLabels[severity]))}</h3>\n<div>${own.map((effect) => effectHtml(effect, opened.has(effect))).join('')}</div></section>\n`,
    )
    .join('');
}

/** Short lists stand beside their sentence, long ones below it. */
function effectHtml({ sentence, subjects }: Effect, isOpen: boolean): string {
  const count = `<span class="count">${subjects.length}</span>`;
  const title = `<span class="sentence">${html(capital(sentence))}</span>`;
  const cut = subjects.length - subjectsMax;
  const list = [
    `<ul class="subjects">${subjects.slice(0, subjectsMax).map(subjectHtml).join('')}</ul>`,
    cut > 0 ? `<p class="quiet">${cut} more; the list of Services has all</p>` : '',
  ].join('');
  if (subjects.length <= inlineMax) return `<div class="card effect beside"><p>${count} ${title}</p>${list}</div>\n`;
  return `<details class="card effect"${isOpen ? ' open' : ''}><summary>${count} ${title}</summary>${list}</details>\n`;
}

function subjectHtml({ name, isService, details }: EffectSubject): string {
  const shown = isService
    ? `<a href="#services/${encodeURIComponent(name)}">${html(name)}</a>`
    : `<b>${html(name)}</b>`;
  return `<li>${shown}${details.length === 0 ? '' : ` <span class="detail">${details.map(html).join('; ')}</span>`}</li>`;
}
