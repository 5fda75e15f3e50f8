import type { Finding, Findings, FindingsFormat } from './findings.ts';
import { junitOf } from './junit.ts';
import { code, plain } from './markdown-text.ts';
import { sarifOf } from './sarif.ts';

/** Prints findings in one of the forms that people and their tools read. */
export const printFindings = (document: Findings, format: FindingsFormat): string => printers[format](document);

const printers: Readonly<Record<FindingsFormat, (document: Findings) => string>> = {
  text: textOf,
  markdown: markdownOf,
  sarif: sarifOf,
  junit: junitOf,
};

/** What would end a line, or steer a terminal: names in rules may be of other programs. */
const steering = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

function textOf({ findings, closing }: Findings): string {
  const lines = [
    ...findings.flatMap(({ head, details }) => [head, ...details.map((line) => `    ${line}`)]),
    ...closing,
  ];
  return lines.map((line) => `${line.replaceAll(steering, '?')}\n`).join('');
}

/** The maximum number of findings in a comment; it counts the rest. */
const shownMax = 100;

/** For a comment on a pull request. */
function markdownOf({ command, findings, folded, verdict }: Findings): string {
  const left = findings.length - shownMax;
  const lines = [
    `## Sluice: ${command.slice(command.indexOf(' ') + 1)}`,
    '',
    ...(findings.length === 0 ? [] : ['| level | rule | about | what | where |', '|---|---|---|---|---|']),
    ...findings.slice(0, shownMax).map(rowOf),
    ...(findings.length === 0 ? [] : ['']),
    ...(left > 0 ? [`… and ${left} more findings`, ''] : []),
    ...(folded === undefined ? [] : foldedLines(folded)),
    `**${plain(verdict)}**`,
  ];
  return `${lines.join('\n')}\n`;
}

function rowOf({ level, rule, about, message, excused, place }: Finding): string {
  const what = excused === undefined ? message : `${message} (${excused.why})`;
  const where = place === undefined ? '' : code(`${place.file}:${place.line}`);
  return `| ${excused?.as ?? level} | ${code(rule)} | ${code(about)} | ${plain(what)} | ${where} |`;
}

const foldedLines = ({ summary, items }: NonNullable<Findings['folded']>): readonly string[] => [
  `<details><summary>${summary}</summary>`,
  '',
  ...items,
  '',
  '</details>',
  '',
];
