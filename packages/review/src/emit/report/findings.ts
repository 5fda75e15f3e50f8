import { policyRules } from '../../policy/catalogue.ts';
import type { PolicyFinding } from '../../policy/finding.ts';
import type { PolicyResult } from '../../policy/policy.ts';
import { fileOf } from '../policy/report.ts';
import type { FindingGroup } from './data.ts';
import { capital, html } from '@sluice/renderer/emit/html.ts';

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
    const { code } = own[0]!;
    const { shared, texts } = textsOf(own.slice(0, findingsMax));
    return {
      level: key.slice(0, key.indexOf(' ')) as FindingGroup['level'],
      code,
      title: policyRules[code].title,
      reason: policyRules[code].reason,
      ...(shared === undefined ? {} : { shared }),
      findings: texts.map((text, at) => ({
        subject: own[at]!.subject,
        text,
        where: `${fileOf(names, own[at]!)}:${own[at]!.line}`,
      })),
      cut: own.length - texts.length,
    };
  });
}

/** What findings of a rule say together, and what each of them says. */
function textsOf(findings: readonly PolicyFinding[]): { readonly shared?: string; readonly texts: readonly string[] } {
  const message = sharedText(findings.map((one) => one.message));
  const advice = new Set(findings.map(adviceOf));
  if (message === undefined || advice.size > 1)
    return { texts: findings.map((one) => `${one.message}. ${adviceOf(one)}`) };
  return { shared: `${message.sentence}. ${[...advice][0]}`, texts: message.own };
}

const adviceOf = ({ hint, waived }: PolicyFinding): string =>
  waived === undefined ? hint : `Waived until ${waived.expires}: ${waived.reason}`;

/** The view of the policy: what fails is open, notes are folded. */
export function policyView(groups: readonly FindingGroup[]): string {
  if (groups.length === 0) return '<p class="empty">No policy findings.</p>\n';
  return groups.map(groupHtml).join('');
}

/** A text in which code stands between backticks. */
const withCode = (text: string): string => html(text).replaceAll(/`([^`]*)`/g, '<code>$1</code>');

function groupHtml({ level, code, title, reason, shared, findings, cut }: FindingGroup): string {
  const count = findings.length + cut;
  const rows = findings.map(
    ({ subject, text, where }) =>
      `<tr><td data-label="about">${html(subject)}</td><td data-label="what"><span>${withCode(text)}</span></td><td data-label="where"><code>${html(where).replaceAll('/', '/<wbr>')}</code></td></tr>`,
  );
  const more = cut === 0 ? '' : `<p class="quiet">${cut} more; <code>sluice policy</code> prints all</p>`;
  const isOpen = level === 'error' || (level === 'warning' && count <= 10);
  return [
    `<details class="card effect"${isOpen ? ' open' : ''}><summary><span class="level ${level}">${level}</span> `,
    `<span class="sentence">${withCode(capital(title))}</span> <code>${html(code)}</code> <span class="count">${count}</span></summary>`,
    `<p class="quiet">${html(reason)}.</p>`,
    shared === undefined ? '' : `<p>${withCode(shared)}</p>`,
    '<table class="stack"><thead><tr><th scope="col">about</th><th scope="col">what</th><th scope="col">where</th></tr></thead>',
    `<tbody>${rows.join('')}</tbody></table>${more}</details>\n`,
  ].join('');
}

/** What several sentences have in common, and what is each one's own. */
interface SharedText {
  /** With `…` in place of what differs. */
  readonly sentence: string;
  /** In the order of the sentences. */
  readonly own: readonly string[];
}

/** Sentences that share fewer words say different things. */
const sharedWordsMin = 4;

/**
 * Finds the words with which sentences begin and end alike.
 * @returns undefined for one sentence, and for sentences that share too little
 */
export function sharedText(sentences: readonly string[]): SharedText | undefined {
  if (sentences.length < 2) return undefined;
  const all = sentences.map((sentence) => sentence.split(' '));
  const shortest = Math.min(...all.map(({ length }) => length));
  const [first] = all as [string[], ...string[][]];
  let start = 0;
  while (start < shortest && all.every((words) => words[start] === first[start])) start++;
  let end = 0;
  while (end < shortest - start && all.every((words) => words.at(-1 - end) === first.at(-1 - end))) end++;
  if (start + end < sharedWordsMin) return undefined;
  const own = all.map((words) => words.slice(start, words.length - end).join(' '));
  const middle = own.every((text) => text === '') ? [] : ['…'];
  return { sentence: [...first.slice(0, start), ...middle, ...first.slice(first.length - end)].join(' '), own };
}
