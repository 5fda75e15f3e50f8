import { code, plain } from '@sluice/cli';
import { shortList } from '@sluice/netfilter';
import type { Effect, EffectSubject } from '../../report/effect.ts';
import type { ChangeReport } from '../../report/report.ts';
import { type Severity, severities, severityLabels, severityPlurals } from '../../report/severity.ts';
import { verdictText } from '../../report/words.ts';
import { countText } from '../policy/report.ts';
import { belowHeadline, headline, severityCounts } from './effects-view.ts';
import { findingGroups } from './findings.ts';
import { commentMark, urlOf } from './markdown.ts';
import { shapes } from './shapes.ts';

/** The maximum number of lines of a summary; a comment has 60 with the observed nodes, which a pipeline adds. */
export const summaryLinesMax = 49;
/** Sentences: those of each severity for which there is room anyway, and of all together. */
const sentencesMin = 2;
const sentencesMax = sentencesMin * severities.length;
/** Groups of findings, names behind a sentence, and the characters of a name. */
const findingsMax = 6;
const namesMax = 6;
const nameCharactersMax = 130;

/** What a summary names besides the report. */
interface SummaryOptions {
  /** The new bundle as the user named it. */
  readonly bundle: string;
  readonly reportUrl?: string;
}

/** Prints the report for the description of a pull request: severities; folded, their sentences with the first names, and the policy. */
export function reportSummary(report: ChangeReport, { bundle, reportUrl }: SummaryOptions): string {
  const { effects, diff, policy } = report;
  const below = belowHeadline(report);
  return `${[
    commentMark,
    `### Sluice: ${plain(shortened(headline(effects) || verdictText(diff), 400))}`,
    ...(below === '' ? [] : ['', plain(below)]),
    ...(effects.length === 0 ? [] : ['', ...severityLines(effects), ...folded('What changes', sentenceLines(effects))]),
    ...(policy === undefined ? [] : folded(`Policy: ${countText(policy)}`, policyLines(policy, bundle))),
    ...(reportUrl === undefined ? [] : ['', `[The full report](<${urlOf(reportUrl)}>)`]),
  ].join('\n')}\n`;
}

/** Lines of a list behind a title; a title alone where there are none. */
const folded = (title: string, lines: readonly string[]): readonly string[] =>
  lines.length === 0 ? ['', title] : ['', `<details><summary>${title}</summary>`, '', ...lines, '', '</details>'];

/** A line for each severity, worst first. */
function severityLines(effects: readonly Effect[]): readonly string[] {
  const counts = severityCounts(effects);
  const label = (severity: Severity): string => (counts[severity] === 1 ? severityLabels : severityPlurals)[severity];
  return severities
    .filter((severity) => counts[severity] > 0)
    .map((severity) => `- ${shapes[severity].sign} **${counts[severity]} ${label(severity)}**`);
}

/** The first sentences of each severity, and further ones while there is room. */
function sentenceLines(effects: readonly Effect[]): readonly string[] {
  const ranked = [...Map.groupBy(effects, ({ severity }) => severity).values()]
    .flatMap((own) => own.map((effect, at) => ({ effect, rank: Math.max(at, sentencesMin - 1) })))
    .toSorted((a, b) => a.rank - b.rank);
  const shown = new Set(ranked.slice(0, sentencesMax).map(({ effect }) => effect));
  const lines = effects.filter((effect) => shown.has(effect)).map(sentenceLine);
  return [...lines, ...restLine(effects.length - lines.length, 'sentences')];
}

const sentenceLine = ({ severity, sentence, subjects }: Effect): string =>
  `- ${shapes[severity].sign} ${plain(sentence)}${subjects.length === 1 ? '' : ` (${subjects.length})`} – ${shortList(
    subjects.map((subject) => subjectText(subject, subjects.length === 1)),
    namesMax,
  )}`;

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
    const names = [...new Set(own.map(({ subject }) => code(shortened(subject, nameCharactersMax))))];
    return `- **${level}** ${code(rule)} ${withCode(title)} – ${shortList(names, namesMax)}`;
  });
  return [...lines, ...restLine(groups.length - lines.length, 'rules')];
}

const restLine = (rest: number, what: string): readonly string[] => (rest > 0 ? [`- … and ${rest} more ${what}`] : []);

/** A title of the policy, in which code stands between backticks. */
const withCode = (title: string): string =>
  title
    .split('`')
    .map((part, at) => (at % 2 === 1 ? code(part) : plain(part)))
    .join('');

const shortened = (text: string, characters: number): string =>
  text.length <= characters ? text : `${text.slice(0, characters - 1)}…`;
