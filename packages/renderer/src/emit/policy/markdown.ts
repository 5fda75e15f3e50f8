import { code, plain } from '../markdown.ts';
import { countText, fileOf, type PolicyReport } from './report.ts';

/** Past this many findings a comment says how many more there are. */
const shownMax = 100;

/** For a comment on a pull request. */
export function markdownOf(report: PolicyReport): string {
  const { findings, losses, compared } = report.result;
  const rows = findings.slice(0, shownMax).map((finding) => {
    const { level, code: rule, subject, message, waived, line } = finding;
    const what = waived ? `waived until ${waived.expires}` : level;
    const why = waived ? `${message}. Waived: ${waived.reason}` : message;
    return `| ${what} | ${code(rule)} | ${code(subject)} | ${plain(why)} | ${code(`${fileOf(report, finding)}:${line}`)} |`;
  });
  const lost = losses.map(({ kind, name, ports }) => `- ${kind} ${code(name)}: ${ports.length} ports`);
  const lines = [
    '## Sluice: policy',
    '',
    ...(rows.length === 0 ? [] : ['| level | rule | about | what | where |', '|---|---|---|---|---|', ...rows, '']),
    ...(findings.length > shownMax ? [`… and ${findings.length - shownMax} more findings`, ''] : []),
    ...(lost.length === 0
      ? []
      : ['<details><summary>What would lose every endpoint with a place</summary>', '', ...lost, '', '</details>', '']),
    ...(compared ? [] : ['Rules about changes were not asked.', '']),
    `**${countText(report.result)}**`,
  ];
  return `${lines.join('\n')}\n`;
}
