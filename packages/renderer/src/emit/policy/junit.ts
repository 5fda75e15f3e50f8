import { policyCodes, policyRules } from '../../review/policy/catalogue.ts';
import type { PolicyFinding } from '../../review/policy/finding.ts';
import { type JunitCase, junitDocument } from '../junit-document.ts';
import { fileOf, type PolicyReport } from './report.ts';

/**
 * JUnit XML for Jenkins and GitLab: a test for every rule that was checked, failed by each of its errors and warnings. Waived findings are
 * skipped tests; notes are passed tests with output.
 */
export function junitOf(report: PolicyReport): string {
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
