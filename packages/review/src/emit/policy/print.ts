import { document, type Finding, type Findings, type FindingsFormat, printFindings, version } from '@sluice/cli';
import { plural, shortList } from '@sluice/netfilter';
import { policyCodes, policyRules } from '../../policy/catalogue.ts';
import type { PolicyFinding } from '../../policy/finding.ts';
import { countText, fileOf, type PolicyReport } from './report.ts';

export type PolicyFormat = FindingsFormat | 'json';

/** Prints the findings of the policy for a bundle. */
export const printPolicy = (report: PolicyReport, format: PolicyFormat): string =>
  format === 'json' ? jsonOf(report) : printFindings(findingsOf(report), format);

/** `compared` says the same as `checked` about changes: it is older. */
function jsonOf({ result: { findings, losses, checked } }: PolicyReport): string {
  return document('PolicyReport', { findings, losses, compared: checked.includes('change'), checked });
}

/** Above the ports that depend on a single node or zone. */
const lossesTitle = 'Ports that would lose all endpoints with a known node or zone';

function findingsOf(report: PolicyReport): Findings {
  const { findings, losses, checked } = report.result;
  const found = new Set(findings.map(({ code }) => code));
  const clean = policyCodes.filter((code) => checked.includes(policyRules[code].about) && !found.has(code));
  const lost = losses.map(({ kind, name, ports }) => `    ${kind} ${name}: ${shortList(ports)}`);
  const unchecked = checked.includes('change')
    ? []
    : ['Rules about changes were not checked: pass --base with the bundle that is replaced'];
  const verdict = countText(report.result);
  return {
    command: 'sluice policy',
    version,
    rules: policyCodes.map((id) => {
      const { title, reason, level } = policyRules[id];
      return { id, title, reason, level: level === 'off' ? 'none' : level };
    }),
    findings: findings.map((finding) => findingOf(finding, fileOf(report, finding))),
    examined: clean.map((code) => ({ group: code, name: 'nothing found', text: '', isJudged: true })),
    closing: [...(lost.length === 0 ? [] : [`${lossesTitle}:`, ...lost]), ...unchecked, verdict],
    verdict: [verdict, ...unchecked].join('. '),
    ...(losses.length > 0 && {
      folded: {
        summary: lossesTitle,
        items: losses.map(({ kind, name, ports }) => `- ${kind} \`${name}\`: ${plural(ports.length, 'port')}`),
      },
    }),
  };
}

function findingOf(
  { level, code, subject, message, hint, reason, waived, line }: PolicyFinding,
  file: string,
): Finding {
  return {
    rule: code,
    level,
    group: code,
    about: subject,
    message,
    head: `${file}:${line}: ${waived ? 'waived' : level}: ${subject}: ${message} [${code}]`,
    details: waived ? [`until ${waived.expires}: ${waived.reason}`] : [reason, hint],
    place: { file, line },
    ...(waived && { excused: { as: 'waived', why: `until ${waived.expires}: ${waived.reason}` } }),
    identity: `${code}\n${subject}\n${message}`,
  };
}
