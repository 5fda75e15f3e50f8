import type { ChangedFlow } from '../../review/diff-flows.ts';
import type { PolicyResult } from '../../review/policy/policy.ts';
import { type ChangeReport, effectOf } from '../../review/report/report.ts';
import { outcomeText, verdictText } from '../../review/words.ts';
import { code, plain } from '../markdown.ts';
import { countText } from '../policy/report.ts';
import { factText, flowHead, packetText } from '../review/diff.ts';
import { settingLines } from '../review/settings.ts';
import { type DiffSize, webText } from './diff-size.ts';

/** The first line of a comment, by which a pipeline finds its own to write it anew. */
export const commentMark = '<!-- sluice: report -->';

/** How long a comment may be. GitHub takes 65,536 characters, GitLab a million. */
export const commentCharactersMax = 60_000;

export interface MarkdownOptions {
  /** How many characters it may have; absent: all there is. */
  readonly charactersMax?: number;
  /** Where the whole report is. */
  readonly reportUrl?: string;
  readonly size: DiffSize;
}

/** A part of the text: lines that always stand, and rows of which as many stand as there is room for. */
interface Part {
  readonly head: readonly string[];
  readonly rows: readonly string[];
  readonly tail: readonly string[];
  /** What its rows are called when some are left out. */
  readonly what: string;
}

/**
 * The report for a comment or a page of text: verdict first, then policy, Services, flows and settings. Where it does not fit, rows are left
 * out from the end of each part, and it says how many and where the rest is.
 */
export function reportMarkdown(report: ChangeReport, options: MarkdownOptions): string {
  const top = [
    commentMark,
    `### Sluice: ${plain(verdictText(report.diff))}`,
    '',
    ...(report.policy === undefined ? [] : [`Policy: **${countText(report.policy)}**`, '']),
  ];
  const parts = [...policyPart(report.policy), servicesPart(report), flowsPart(report), settingsPart(report)].filter(
    ({ rows }) => rows.length > 0,
  );
  const link = options.reportUrl === undefined ? '' : ` [The full report](<${urlOf(options.reportUrl)}>)`;
  const bottom = [webText(options.size), ...(link === '' ? [] : [`${link.trim()} has all of it.`])];
  const fixed = [...top, ...bottom, ...parts.flatMap(({ head, tail }) => [...head, ...tail])];
  const room = (options.charactersMax ?? Number.POSITIVE_INFINITY) - lengthOf(fixed) - reserve;
  const { kept, cut } = fit(parts, room);
  const notice =
    cut.length === 0
      ? []
      : [
          `> **This text is cut: ${cut.join(', ')} more.**${link === '' ? ' `sluice diff` shows all.' : `${link} shows all.`}`,
          '',
        ];
  return `${[...top, ...notice, ...kept, ...bottom].join('\n')}\n`;
}

/** Room for the sentence that says what is cut. */
const reserve = 1_000;

const lengthOf = (lines: readonly string[]): number => lines.reduce((sum, line) => sum + line.length + 1, 0);

/** Gives each part an equal share of the room; what one does not need, those after it may use. */
function fit(parts: readonly Part[], room: number): { kept: readonly string[]; cut: readonly string[] } {
  const kept: string[] = [];
  const cut: string[] = [];
  let left = room;
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

/** What fails, then what somebody answers for: a reviewer agrees to waivers too. Notes are counted above. */
function policyPart(policy: PolicyResult | undefined): readonly Part[] {
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

function servicesPart({ diff }: ChangeReport): Part {
  const rows = diff.services.map(({ kind, service, family, changes }) =>
    [`- **${kind}** ${code(`${service} (${family})`)}`, ...changes.map((fact) => `  - ${code(factText(fact))}`)].join(
      '\n',
    ),
  );
  return { head: ['#### Services', ''], rows, tail: [''], what: 'Services' };
}

const signs = { opens: 'opens', closes: '**closes**', moves: 'moves' } as const;

function flowsPart({ diff }: ChangeReport): Part {
  // What is lost is read first.
  const order = { closes: 0, opens: 1, moves: 2 } as const;
  const turned = diff.flows
    .map((flow) => ({ flow, turn: effectOf(flow.old, flow.new) }))
    .toSorted((a, b) => order[a.turn] - order[b.turn]);
  const rows = turned.map(({ flow, turn }) => flowRow(flow, signs[turn]));
  const head = [
    '<details><summary>Traffic that is treated differently</summary>',
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

function settingsPart({ diff }: ChangeReport): Part {
  const rows = settingLines(diff).map((line) => `- ${code(line.trim())}`);
  return { head: ['#### Settings and nodes', ''], rows, tail: [''], what: 'lines of settings' };
}

/** A URL as the target of a link in angle brackets. */
function urlOf(url: string): string {
  return url.replaceAll(/[<>\s]/g, (character) => encodeURIComponent(character));
}
