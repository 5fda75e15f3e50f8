import type { Failure, WhatIf } from '../../review/report/what-if.ts';
import type { Severity } from '../../review/report/severity.ts';
import { html } from '../html-text.ts';
import { shapeMark } from './shapes.ts';

/** The maximum number of failures, and of ports of one failure, in a page. */
const failuresMax = 500;
const portsMax = 20;

/** What the view cannot know, and where it is counted. */
const unknown =
  '<p class="quiet">An endpoint whose node or zone the bundle does not name survives every failure here; <code>sluice what-if</code> counts them.</p>\n';

/** The view of single failures, worst first. */
export function whatIfView(failures: WhatIf): string {
  if (failures.length === 0)
    return `<p class="empty">No failure of a single zone or node takes a port or a frontend from clients, passes the limit of shares or breaks a rule of the policy.</p>\n${unknown}`;
  const rows = failures.slice(0, failuresMax).map(rowOf);
  const cut = failures.length - failuresMax;
  const heads = ['without', 'taken from clients', 'shares above the limit', 'rules that break'];
  return [
    `<div class="card"><table class="stack failures"><thead><tr>${heads.map((head) => `<th scope="col">${head}</th>`).join('')}</tr></thead>`,
    `<tbody>${rows.join('')}</tbody></table></div>`,
    cut > 0 ? `<p class="quiet">${cut} more; <code>sluice what-if</code> prints all</p>\n` : '\n',
    unknown,
  ].join('');
}

function rowOf({ kind, name, lost, over, rules }: Failure): string {
  return [
    `<tr><td data-label="without"><span>${shapeMark(severityOf({ lost, over }))}${kind} <b>${html(name)}</b></span></td>`,
    `<td data-label="taken from clients">${listOf(lost)}</td>`,
    `<td data-label="above the limit">${listOf(over)}</td>`,
    `<td data-label="rules that break">${listOf(rules)}</td></tr>`,
  ].join('');
}

const severityOf = ({ lost, over }: Pick<Failure, 'lost' | 'over'>): Severity =>
  lost.length > 0 ? 'last-endpoint' : over.length > 0 ? 'moves' : 'settings';

/** A line for each text. */
function listOf(texts: readonly string[]): string {
  if (texts.length === 0) return '<span class="quiet">none</span>';
  const more = texts.length > portsMax ? `<li class="quiet">and ${texts.length - portsMax} more</li>` : '';
  const lines = texts.slice(0, portsMax).map((text) => `<li>${html(text).replaceAll(' %', '&nbsp;%')}</li>`);
  return `<ul>${lines.join('')}${more}</ul>`;
}
