import type { Effect, EffectSubject } from '../../review/report/effect.ts';
import type { ChangeReport } from '../../review/report/report.ts';
import { verdictText } from '../../review/report/words.ts';
import { code, plain } from '../markdown.ts';
import { countText } from '../policy/report.ts';
import { headline } from './effects-view.ts';
import { findingGroups } from './findings.ts';
import { commentMark, urlOf } from './markdown.ts';
import { severityTable } from './severity-table.ts';
import { shapes } from './shapes.ts';

/** The maximum number of lines of a summary, whatever the change. */
export const summaryLinesMax = 60;
/** Sentences and groups of findings, of which a summary of all severities has room for as many. */
const sentencesMax = 26;
const findingsMax = 8;
/** Names behind a sentence, and the characters of a name. */
const namesMax = 6;
const nameCharactersMax = 130;

/** What a summary names besides the report. */
export interface SummaryOptions {
  /** The new bundle as the user named it. */
  readonly bundle: string;
  readonly reportUrl?: string;
}

/** Prints the report for the description of a pull request: severities, sentences with the first of their names, the policy. */
export function reportSummary(report: ChangeReport, { bundle, reportUrl }: SummaryOptions): string {
  const { effects, diff, policy } = report;
  const [worst, verdict] = [headline(effects), verdictText(diff)];
  const sentences = effects.slice(0, sentencesMax).map(sentenceLine);
  const rest = effects.length - sentences.length;
  return `${[
    commentMark,
    `### Sluice: ${plain(shortened(worst === '' ? verdict : worst, 400))}`,
    '',
    ...(worst === '' ? [] : [plain(verdict), '']),
    ...severityTable(effects),
    ...sentences,
    ...(rest > 0 ? [`- … and ${rest} more sentences`] : []),
    ...(policy === undefined ? [] : ['', ...policyLines(policy, bundle)]),
    ...(reportUrl === undefined ? [] : ['', `[The full report](<${urlOf(reportUrl)}>)`]),
  ].join('\n')}\n`;
}

function sentenceLine({ severity, sentence, subjects }: Effect): string {
  const count = subjects.length === 1 ? '' : ` (${subjects.length})`;
  const names = subjects.slice(0, namesMax).map((subject) => subjectText(subject, subjects.length === 1));
  const more = subjects.length > namesMax ? ` and ${subjects.length - namesMax} more` : '';
  return `- ${shapes[severity].sign} **${plain(sentence)}**${count}: ${names.join(', ')}${more}`;
}

/** Details stand behind a name that is alone. */
function subjectText({ name, details }: EffectSubject, isAlone: boolean): string {
  const text = code(shortened(name, nameCharactersMax));
  return isAlone && details.length > 0 ? `${text} ${plain(shortened(details.join('; '), nameCharactersMax))}` : text;
}

function policyLines(policy: NonNullable<ChangeReport['policy']>, bundle: string): readonly string[] {
  const groups = findingGroups(policy, { bundle }).filter(({ level }) => level !== 'note');
  const lines = groups.slice(0, findingsMax).map(({ level, code: rule, title, findings, cut }) => {
    const subjects = [...new Set(findings.map(({ subject }) => subject))];
    const more =
      subjects.length > namesMax || cut > 0
        ? ` and ${findings.length + cut - Math.min(namesMax, subjects.length)} more`
        : '';
    const names = subjects.slice(0, namesMax).map((subject) => code(shortened(subject, nameCharactersMax)));
    return `- **${level}** ${code(rule)} ${plain(title)}: ${names.join(', ')}${more}`;
  });
  const rest = groups.length - lines.length;
  return [`Policy: **${countText(policy)}**`, '', ...lines, ...(rest > 0 ? [`- … and ${rest} more rules`] : [])];
}

const shortened = (text: string, characters: number): string =>
  text.length <= characters ? text : `${text.slice(0, characters - 1)}…`;
