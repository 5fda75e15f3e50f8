import { code, plain } from '@sluice/cli';
import type { Effect, EffectSubject } from '../../review/report/effect.ts';
import type { ChangeReport } from '../../review/report/report.ts';
import { severities, severityLabels, severityPlurals } from '../../review/report/severity.ts';
import { verdictText } from '../../review/report/words.ts';
import { countText } from '../policy/report.ts';
import { belowHeadline, headline, severityCounts } from './effects-view.ts';
import { findingGroups } from './findings.ts';
import { commentMark, urlOf } from './markdown.ts';
import { shapes } from './shapes.ts';

/** The maximum number of lines of a summary, whatever the change. */
export const summaryLinesMax = 60;
/** Sentences: those of each severity for which there is room anyway, and of all together. */
const sentencesMin = 3;
const sentencesMax = sentencesMin * severities.length;
/** Groups of findings. */
const findingsMax = 8;
/** Names behind a sentence, and the characters of a name. */
const namesMax = 6;
const nameCharactersMax = 130;

/** What a summary names besides the report. */
interface SummaryOptions {
  /** The new bundle as the user named it. */
  readonly bundle: string;
  readonly reportUrl?: string;
}

/** Prints the report for the description of a pull request: severities with their sentences and the first of their names, the policy. */
export function reportSummary(report: ChangeReport, { bundle, reportUrl }: SummaryOptions): string {
  const { effects, diff, policy } = report;
  const below = belowHeadline(report);
  return `${[
    commentMark,
    `### Sluice: ${plain(shortened(headline(effects) || verdictText(diff), 400))}`,
    ...(below === '' ? [] : ['', plain(below)]),
    ...(effects.length === 0 ? [] : ['', ...severityLines(effects)]),
    ...(policy === undefined ? [] : ['', ...policyLines(policy, bundle)]),
    ...(reportUrl === undefined ? [] : ['', `[The full report](<${urlOf(reportUrl)}>)`]),
  ].join('\n')}\n`;
}

/** A line for each severity, worst first, with its sentences below it. */
function severityLines(effects: readonly Effect[]): readonly string[] {
  const counts = severityCounts(effects);
  const groups = [...Map.groupBy(effects, ({ severity }) => severity)];
  let spare = sentencesMax - groups.reduce((sum, [, own]) => sum + Math.min(own.length, sentencesMin), 0);
  return groups.flatMap(([severity, own]) => {
    const room = Math.min(own.length, sentencesMin + spare);
    spare -= Math.max(0, room - sentencesMin);
    const rest = own.length - room;
    const label = counts[severity] === 1 ? severityLabels[severity] : severityPlurals[severity];
    return [
      `- ${shapes[severity].sign} **${counts[severity]} ${label}**`,
      ...own.slice(0, room).map(sentenceLine),
      ...(rest > 0 ? [`  - … and ${rest} more sentences`] : []),
    ];
  });
}

function sentenceLine({ sentence, subjects }: Effect): string {
  const count = subjects.length === 1 ? '' : ` (${subjects.length})`;
  const names = subjects.slice(0, namesMax).map((subject) => subjectText(subject, subjects.length === 1));
  const more = subjects.length > namesMax ? ` and ${subjects.length - namesMax} more` : '';
  return `  - ${plain(sentence)}${count} – ${names.join(', ')}${more}`;
}

/** Details stand behind a name that is alone. */
function subjectText({ name, details }: EffectSubject, isAlone: boolean): string {
  const text = code(shortened(name, nameCharactersMax));
  return isAlone && details.length > 0 ? `${text} ${plain(shortened(details.join('; '), nameCharactersMax))}` : text;
}

function policyLines(policy: NonNullable<ChangeReport['policy']>, bundle: string): readonly string[] {
  const groups = findingGroups(policy, { bundle }).filter(({ level }) => level !== 'note');
  const lines = groups.slice(0, findingsMax).map(({ level, code: rule, title }) => {
    const own = policy.findings.filter(
      (one) => one.code === rule && (one.waived === undefined ? one.level : 'waived') === level,
    );
    const subjects = [...new Set(own.map(({ subject }) => subject))];
    const names = subjects.slice(0, namesMax).map((subject) => code(shortened(subject, nameCharactersMax)));
    const more = subjects.length > namesMax ? ` and ${subjects.length - namesMax} more` : '';
    return `- **${level}** ${code(rule)} ${withCode(title)} – ${names.join(', ')}${more}`;
  });
  const rest = groups.length - lines.length;
  return [
    `Policy: **${countText(policy)}**`,
    ...(lines.length === 0 ? [] : ['', ...lines]),
    ...(rest > 0 ? [`- … and ${rest} more rules`] : []),
  ];
}

/** A title of the policy, in which code stands between backticks. */
const withCode = (title: string): string =>
  title
    .split('`')
    .map((part, at) => (at % 2 === 1 ? code(part) : plain(part)))
    .join('');

const shortened = (text: string, characters: number): string =>
  text.length <= characters ? text : `${text.slice(0, characters - 1)}…`;
