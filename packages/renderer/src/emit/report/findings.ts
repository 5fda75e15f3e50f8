import { policyRules } from '../../review/policy/catalogue.ts';
import type { PolicyFinding } from '../../review/policy/finding.ts';
import type { PolicyResult } from '../../review/policy/policy.ts';
import { fileOf } from '../policy/report.ts';
import type { FindingGroup } from './data.ts';
import { capital, html } from './html-text.ts';

/** The maximum number of findings of one sentence in a page. */
const findingsMax = 200;

/** Findings by their rule, the gravest first; the sentence of a rule is there once. */
export function findingGroups(
  { findings }: PolicyResult,
  names: { readonly bundle: string; readonly config?: string },
): readonly FindingGroup[] {
  const groups = Map.groupBy(
    findings,
    ({ level, waived, code }) => `${waived === undefined ? level : 'waived'} ${code}`,
  );
  return [...groups].map(([key, own]) => {
    const code = own[0]!.code;
    return {
      level: key.slice(0, key.indexOf(' ')) as FindingGroup['level'],
      code,
      title: policyRules[code].title,
      reason: policyRules[code].reason,
      findings: own.slice(0, findingsMax).map((finding) => ({
        subject: finding.subject,
        text: textOf(finding),
        where: `${fileOf(names, finding)}:${finding.line}`,
      })),
      cut: Math.max(0, own.length - findingsMax),
    };
  });
}

function textOf({ message, hint, waived }: PolicyFinding): string {
  return waived === undefined ? `${message}. ${hint}` : `${message}. Waived until ${waived.expires}: ${waived.reason}`;
}

/** The view of the policy: what fails is open, notes are folded. */
export function policyView(groups: readonly FindingGroup[]): string {
  if (groups.length === 0) return '<p class="empty">No policy findings.</p>\n';
  return groups.map(groupHtml).join('');
}

function groupHtml({ level, code, title, reason, findings, cut }: FindingGroup): string {
  const count = findings.length + cut;
  const rows = findings.map(
    ({ subject, text, where }) =>
      `<tr><td data-label="about">${html(subject)}</td><td data-label="what">${html(text)}</td><td data-label="where"><code>${html(where).replaceAll('/', '/<wbr>')}</code></td></tr>`,
  );
  const more = cut === 0 ? '' : `<p class="quiet">${cut} more; <code>sluice policy</code> prints all</p>`;
  const isOpen = level === 'error' || (level === 'warning' && count <= 10);
  return [
    `<details class="card effect"${isOpen ? ' open' : ''}><summary><span class="level ${level}">${level}</span> `,
    `<span class="sentence">${html(capital(title)).replaceAll(/`([^`]*)`/g, '<code>$1</code>')}</span> <code>${html(code)}</code> <span class="count">${count}</span></summary>`,
    `<p class="quiet">${html(reason)}.</p>`,
    '<table class="stack"><thead><tr><th scope="col">about</th><th scope="col">what</th><th scope="col">where</th></tr></thead>',
    `<tbody>${rows.join('')}</tbody></table>${more}</details>\n`,
  ].join('');
}
