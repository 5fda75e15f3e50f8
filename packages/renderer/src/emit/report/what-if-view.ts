import type { Failure, WhatIf } from '../../review/report/what-if.ts';
import { html } from './html-text.ts';

/** The maximum number of failures, and of ports of one failure, in a page. */
const failuresMax = 500;
const portsMax = 20;

/** The view of single failures, worst first. */
export function whatIfView(failures: WhatIf): string {
  if (failures.length === 0) return '<p class="empty">No single failure takes the last endpoint of a port.</p>\n';
  const rows = failures.slice(0, failuresMax).map(rowOf);
  const cut = failures.length - failuresMax;
  const heads = ['without', 'ports that lose all endpoints', 'shares above the limit', 'rules that break'];
  return [
    `<table class="stack card"><thead><tr>${heads.map((head) => `<th scope="col">${head}</th>`).join('')}</tr></thead>`,
    `<tbody>${rows.join('')}</tbody></table>`,
    cut > 0 ? `<p class="quiet">${cut} more; <code>sluice what-if</code> prints all</p>\n` : '\n',
  ].join('');
}

function rowOf({ kind, name, lost, over, rules }: Failure): string {
  return [
    `<tr><td data-label="without">${kind} <b>${html(name)}</b></td>`,
    `<td data-label="lose all endpoints">${listOf(lost)}</td>`,
    `<td data-label="above the limit">${listOf(over)}</td>`,
    `<td data-label="rules that break">${listOf(rules)}</td></tr>`,
  ].join('');
}

function listOf(texts: readonly string[]): string {
  if (texts.length === 0) return '<span class="quiet">none</span>';
  const more = texts.length > portsMax ? ` and ${texts.length - portsMax} more` : '';
  return `<b>${texts.length}</b>: ${html(texts.slice(0, portsMax).join(', '))}${more}`;
}
