import type { PolicyFinding } from '../../review/policy/finding.ts';
import { countText, fileOf, type PolicyReport } from './report.ts';

/** The maximum number of ports in a line. */
const portsMax = 5;

/** Prints the findings as text, like problems, then the ports that depend on a single node or zone. */
export function textOf(report: PolicyReport): string {
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
