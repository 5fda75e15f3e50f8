import type { PageData, PageFinding } from '../src/emit/report/data.ts';
import { byId, element } from './element.ts';

/** The maximum number of rows of one table. */
const rowsMax = 500;
/** Rows that are shown unfolded, above the traffic changes. */
const openMax = 20;

/** Worst first. Notes do not block a change, so they are folded. */
const order = ['error', 'warning', 'waived', 'note'] as const satisfies readonly PageFinding['level'][];

/** Shows the findings of the policy: the worst unfolded, the rest folded. */
export function showFindings({ findings }: PageData): void {
  if (findings === undefined || findings.length === 0) return;
  const weighty = order.slice(0, -1).flatMap((level) => findings.filter((finding) => finding.level === level));
  const notes = findings.filter(({ level }) => level === 'note');
  const [open, more] = [weighty.slice(0, openMax), weighty.slice(openMax)];
  byId('findings').replaceChildren(
    ...(open.length === 0 ? [] : [tableOf(open)]),
    ...(more.length === 0 ? [] : [folded(`${more.length} more`, more)]),
    ...(notes.length === 0 ? [] : [folded(notes.length === 1 ? '1 note' : `${notes.length} notes`, notes)]),
  );
}

/** A table that is built when it is opened. */
function folded(title: string, findings: readonly PageFinding[]): HTMLElement {
  const details = element('details', {}, element('summary', {}, title));
  details.addEventListener('toggle', () => {
    if (details.childElementCount > 1) return;
    details.append(tableOf(findings.slice(0, rowsMax)));
    const left = findings.length - rowsMax;
    if (left > 0) details.append(element('p', {}, `${left} more; sluice policy prints all`));
  });
  return details;
}

const columns = ['level', 'rule', 'about', 'what', 'where'];

function tableOf(findings: readonly PageFinding[]): HTMLElement {
  const head = element('tr', {}, ...columns.map((name) => element('th', { scope: 'col' }, name)));
  return element(
    'table',
    { class: 'findings' },
    element('thead', {}, head),
    element('tbody', {}, ...findings.map(rowOf)),
  );
}

function rowOf({ level, code, subject, text, where }: PageFinding): HTMLElement {
  const cells = [code, subject, text, where].map((cell) => element('td', {}, cell));
  return element('tr', {}, element('td', { class: `level ${level}` }, level), ...cells);
}
