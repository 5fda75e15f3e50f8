import type { PolicyFinding } from '../../review/policy/finding.ts';
import { countText, fileOf, type PolicyReport } from './report.ts';

/** Ports that one line names of what a node or zone takes with it. */
const portsMax = 5;

/** For a person at a terminal: each finding as problems are printed, then what single places would take with them. */
export function textOf(report: PolicyReport): string {
  const { findings, losses, compared } = report.result;
  const lost = losses.map(({ kind, name, ports }) => {
    const more = ports.length > portsMax ? ` and ${ports.length - portsMax} more` : '';
    return `    ${kind} ${name}: ${ports.slice(0, portsMax).join(', ')}${more}\n`;
  });
  return [
    ...findings.map((finding) => findingText(finding, fileOf(report, finding))),
    ...(lost.length === 0 ? [] : ['What would lose every endpoint with a place:\n', ...lost]),
    compared ? '' : 'Rules about changes were not asked: --base names what the bundle replaces\n',
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
