import { policyCodes, policyRules } from '../../review/policy/catalogue.ts';
import type { PolicyFinding } from '../../review/policy/finding.ts';
import { type JunitCase, junitDocument } from '../junit-document.ts';
import { code as quoted, plain } from '../markdown.ts';
import { countText, fileOf, type PolicyReport } from './report.ts';
import { sarifOf } from './sarif.ts';

const policyFormats = ['text', 'json', 'sarif', 'junit', 'markdown'] as const;
export type PolicyFormat = (typeof policyFormats)[number];

/** Prints the findings of the policy for a bundle. */
export function printPolicy(report: PolicyReport, format: PolicyFormat): string {
  return writers[format](report);
}

const writers = {
  text: textOf,
  json: jsonOf,
  sarif: sarifOf,
  junit: junitOf,
  markdown: markdownOf,
} as const satisfies Record<PolicyFormat, (report: PolicyReport) => string>;

/** `compared` says the same as `checked` about changes: it is older. */
function jsonOf({ result: { findings, losses, checked } }: PolicyReport): string {
  const compared = checked.includes('change');
  const head = { apiVersion: 'sluice.dev/v1alpha1', kind: 'PolicyReport' } as const;
  return `${JSON.stringify({ ...head, findings, losses, compared, checked }, null, 2)}\n`;
}

/** The maximum number of ports in a line. */
const portsMax = 5;

/** Prints the findings as text, like problems, then the ports that depend on a single node or zone. */
function textOf(report: PolicyReport): string {
  const { findings, losses, checked } = report.result;
  const lost = losses.map(({ kind, name, ports }) => {
    const more = ports.length > portsMax ? ` and ${ports.length - portsMax} more` : '';
    return `    ${kind} ${name}: ${ports.slice(0, portsMax).join(', ')}${more}\n`;
  });
  return [
    ...findings.map((finding) => findingText(finding, fileOf(report, finding))),
    ...(lost.length === 0 ? [] : ['Ports that would lose all endpoints with a known node or zone:\n', ...lost]),
    checked.includes('change')
      ? ''
      : 'Rules about changes were not checked: pass --base with the bundle that is replaced\n',
    `${countText(report.result)}\n`,
  ].join('');
}

function findingText(
  { level, code, subject, message, hint, reason, waived, line }: PolicyFinding,
  file: string,
): string {
  const head = `${file}:${line}: ${waived ? 'waived' : level}: ${subject}: ${message} [${code}]\n`;
  if (waived) return `${head}    until ${waived.expires}: ${waived.reason}\n`;
  return `${head}    ${reason}\n    ${hint}\n`;
}

/** The maximum number of findings in a comment; it counts the rest. */
const shownMax = 100;

/** Prints the findings for a comment on a pull request. */
function markdownOf(report: PolicyReport): string {
  const { findings, losses, checked } = report.result;
  const rows = findings.slice(0, shownMax).map((finding) => {
    const { level, code: rule, subject, message, waived, line } = finding;
    const what = waived ? `waived until ${waived.expires}` : level;
    const why = waived ? `${message}. Waived: ${waived.reason}` : message;
    return `| ${what} | ${quoted(rule)} | ${quoted(subject)} | ${plain(why)} | ${quoted(`${fileOf(report, finding)}:${line}`)} |`;
  });
  const lost = losses.map(({ kind, name, ports }) => `- ${kind} ${quoted(name)}: ${ports.length} ports`);
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

/**
 * JUnit XML for Jenkins and GitLab: a test for every rule that was checked, failed by each of its errors and warnings. Waived findings are
 * skipped tests; notes are passed tests with output.
 */
function junitOf(report: PolicyReport): string {
  const { findings, checked } = report.result;
  const cases = policyCodes
    .filter((code) => checked.includes(policyRules[code].about))
    .flatMap((code): readonly JunitCase[] => {
      const found = findings.filter((finding) => finding.code === code);
      return found.length === 0
        ? [{ classname: code, name: 'nothing found' }]
        : found.map((finding) => caseOf(report, finding));
    });
  return junitDocument('sluice policy', cases);
}

function caseOf(report: PolicyReport, finding: PolicyFinding): JunitCase {
  const { code, subject, message } = finding;
  const file = fileOf(report, finding);
  return { classname: code, name: `${subject}: ${message}`, file, ended: endOf(file, finding) };
}

function endOf(file: string, { level, message, hint, reason, waived, line }: PolicyFinding): JunitCase['ended'] & {} {
  if (waived) return { kind: 'skipped', message: `until ${waived.expires}: ${waived.reason}` };
  const text = `${file}:${line}\n${reason}\n${hint}`;
  if (level === 'note') return { kind: 'output', text: `${message}\n${text}` };
  return { kind: 'failure', type: level, message, text };
}
