import { code, plain } from '@sluice/cli';
import type { ChangedFlow } from '../../diff/flow-changes.ts';
import type { PolicyResult } from '../../policy/policy.ts';
import type { ChangeReport } from '../../report/report.ts';
import { effectOf } from '../../report/turn.ts';
import { outcomeText, packetText, verdictText } from '../../report/words.ts';
import { countText } from '../policy/report.ts';
import { factText, flowHead } from '../diff.ts';
import { settingLines } from '../settings.ts';
import { type DiffSize, webText } from './diff-size.ts';
import { turnOrder } from './flow-data.ts';
import type { Effect } from '../../report/effect.ts';
import { severities, severityLabels } from '../../report/severity.ts';
import { severityCounts } from './effects-view.ts';
import { shapes } from './shapes.ts';

/** The first line of a comment, by which a pipeline finds and updates its own comment. */
export const commentMark = '<!-- sluice: report -->';

/** The maximum length of a comment. GitHub accepts 65,536 characters, GitLab a million. */
export const commentCharactersMax = 60_000;

export interface MarkdownOptions {
  /** The maximum length; absent: unlimited. */
  readonly charactersMax?: number;
  /** A link to the full report. */
  readonly reportUrl?: string;
  readonly size: DiffSize;
}

/** A section of the text: fixed lines, and rows of which as many are kept as fit. */
interface MarkdownSection {
  readonly head: readonly string[];
  readonly rows: readonly string[];
  readonly tail: readonly string[];
  /** The plural noun for its rows. */
  readonly what: string;
}

/**
 * Prints the report for a comment: verdict and severities first, then policy, Services, flows and settings. If it does not fit, rows are left out from the
 * end of each section, with a count and a link to the rest.
 */
export function reportMarkdown(report: ChangeReport, options: MarkdownOptions): string {
  const top = [
    commentMark,
    `### Sluice: ${plain(verdictText(report.diff))}`,
    '',
    ...severityTable(report.effects),
    ...(report.policy === undefined ? [] : [`Policy: **${countText(report.policy)}**`, '']),
  ];
  const parts = [...policyPart(report.policy), servicesPart(report), flowsPart(report), settingsPart(report)].filter(
    ({ rows }) => rows.length > 0,
  );
  const link = options.reportUrl === undefined ? '' : ` [The full report](<${urlOf(options.reportUrl)}>)`;
  const bottom = [webText(options.size), ...(link === '' ? [] : [`${link.trim()} has all of it.`])];
  const fixed = [...top, ...bottom, ...parts.flatMap(({ head, tail }) => [...head, ...tail])];
  const charactersLeft = (options.charactersMax ?? Number.POSITIVE_INFINITY) - lengthOf(fixed) - reserve;
  const { kept, cut } = fit(parts, charactersLeft);
  const notice =
    cut.length === 0
      ? []
      : [
          `> **Truncated: ${cut.join(', ')} more.**${link === '' ? ' `sluice diff` shows all.' : `${link} shows all.`}`,
          '',
        ];
  return `${[...top, ...notice, ...kept, ...bottom].join('\n')}\n`;
}

/** Room for the sentence on omitted rows. */
const reserve = 1_000;

const lengthOf = (lines: readonly string[]): number => lines.reduce((sum, line) => sum + line.length + 1, 0);

/** Gives each section an equal share of the room; later sections may use what is left over. */
function fit(
  parts: readonly MarkdownSection[],
  characters: number,
): { kept: readonly string[]; cut: readonly string[] } {
  const kept: string[] = [];
  const cut: string[] = [];
  let left = characters;
  for (const [at, { head, rows, tail, what }] of parts.entries()) {
    const share = left / (parts.length - at);
    let used = 0;
    let count = 0;
    while (count < rows.length && used + rows[count]!.length + 1 <= share) used += rows[count++]!.length + 1;
    left -= used;
    kept.push(...head, ...rows.slice(0, count), ...tail);
    if (count < rows.length) cut.push(`${rows.length - count} ${what}`);
  }
  return { kept, cut };
}

/** Failures, then waived findings, which a reviewer has to accept as well. Notes are only counted. */
function policyPart(policy: PolicyResult | undefined): readonly MarkdownSection[] {
  const findings = policy?.findings ?? [];
  const failing = findings.filter(({ level, waived }) => waived === undefined && level !== 'note');
  const rows = [...failing, ...findings.filter(({ waived }) => waived !== undefined)].map(
    ({ level, code: rule, subject, message, waived }) =>
      `| ${waived === undefined ? level : `waived until ${waived.expires}`} | ${code(rule)} | ${code(subject)} | ${plain(
        waived === undefined ? message : `${message}. ${waived.reason}`,
      )} |`,
  );
  const head = ['| level | rule | about | what |', '|---|---|---|---|'];
  return [{ head, rows, tail: [''], what: 'findings' }];
}

function servicesPart({ diff }: ChangeReport): MarkdownSection {
  const rows = diff.services.map(({ kind, service, family, changes }) =>
    [`- **${kind}** ${code(`${service} (${family})`)}`, ...changes.map((fact) => `  - ${code(factText(fact))}`)].join(
      '\n',
    ),
  );
  return { head: ['#### Services', ''], rows, tail: [''], what: 'Services' };
}

const signs = { opens: 'opens', closes: '**closes**', moves: 'moves' } as const;

function flowsPart({ diff }: ChangeReport): MarkdownSection {
  const turned = diff.flows
    .map((flow) => ({ flow, turn: effectOf(flow.old, flow.new) }))
    .toSorted((a, b) => turnOrder[a.turn] - turnOrder[b.turn]);
  const rows = turned.map(({ flow, turn }) => flowRow(flow, signs[turn]));
  const head = [
    '<details><summary>Traffic changes</summary>',
    '',
    '| | flow | before | after | example |',
    '|---|---|---|---|---|',
  ];
  return { head, rows, tail: ['', '</details>', ''], what: 'flows' };
}

function flowRow(flow: ChangedFlow, sign: string): string {
  const cells = [flowHead(flow), outcomeText(flow.old), outcomeText(flow.new), packetText(flow)];
  return `| ${sign} | ${cells.map(code).join(' | ')} |`;
}

function settingsPart({ diff }: ChangeReport): MarkdownSection {
  const rows = settingLines(diff).map((line) => `- ${code(line.trim())}`);
  return { head: ['#### Settings and nodes', ''], rows, tail: [''], what: 'lines of settings' };
}

/** Escapes a URL as the target of a Markdown link in angle brackets. */
export function urlOf(url: string): string {
  return url.replaceAll(/[<>\s]/g, (character) => encodeURIComponent(character));
}

/** The severities that a change has, with their counts; empty without an effect. */
function severityTable(effects: readonly Effect[]): readonly string[] {
  if (effects.length === 0) return [];
  const counts = severityCounts(effects);
  const rows = severities
    .filter((severity) => counts[severity] > 0)
    .map((severity) => `| ${shapes[severity].sign} | ${counts[severity]} | ${severityLabels[severity]} |`);
  return ['| | | |', '|---|--:|---|', ...rows, ''];
}
