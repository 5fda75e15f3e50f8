import { code, plain } from '../markdown.ts';
import { countText, fileOf, type PolicyReport } from './report.ts';

/** The maximum number of findings in a comment; it counts the rest. */
const shownMax = 100;

/** Prints the findings for a comment on a pull request. */
export function markdownOf(report: PolicyReport): string {
  const { findings, losses, checked } = report.result;
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
      : [
          '<details><summary>Ports that would lose all endpoints with a known node or zone</summary>',
          '',
          ...lost,
          '',
          '</details>',
          '',
        ]),
    ...(checked.includes('change') ? [] : ['Rules about changes were not checked.', '']),
    `**${countText(report.result)}**`,
  ];
  return `${lines.join('\n')}\n`;
}
