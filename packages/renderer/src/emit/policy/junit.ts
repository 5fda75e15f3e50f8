import { xml } from '../xml.ts';
import { policyCodes, policyRules } from '../../review/policy/catalogue.ts';
import type { PolicyFinding } from '../../review/policy/finding.ts';
import { fileOf, type PolicyReport } from './report.ts';

/**
 * JUnit XML for Jenkins and GitLab: a test for every rule that was checked, failed by each of its errors and warnings. Waived findings are
 * skipped tests; notes are passed tests with output.
 */
export function junitOf(report: PolicyReport): string {
  const { findings, checked } = report.result;
  const cases = policyCodes
    .filter((code) => checked.includes(policyRules[code].about))
    .flatMap((code) =>
      casesOf(
        report,
        code,
        findings.filter((finding) => finding.code === code),
      ),
    );
  const failures = cases.filter((text) => text.includes('<failure ')).length;
  const skipped = cases.filter((text) => text.includes('<skipped ')).length;
  return [
    '<?xml version="1.0" encoding="UTF-8"?>\n',
    `<testsuites tests="${cases.length}" failures="${failures}">\n`,
    `  <testsuite name="sluice policy" tests="${cases.length}" failures="${failures}" errors="0" skipped="${skipped}">\n`,
    ...cases,
    '  </testsuite>\n',
    '</testsuites>\n',
  ].join('');
}

function casesOf(report: PolicyReport, code: string, findings: readonly PolicyFinding[]): readonly string[] {
  if (findings.length === 0) return [`    <testcase classname="${code}" name="nothing found"/>\n`];
  return findings.map((finding) => {
    const name = `${finding.subject}: ${finding.message}`;
    const head = `    <testcase classname="${code}" name="${xml(name)}" file="${xml(fileOf(report, finding))}">`;
    return `${head}${insideOf(report, finding)}</testcase>\n`;
  });
}

function insideOf(report: PolicyReport, finding: PolicyFinding): string {
  const { level, message, hint, reason, waived, line } = finding;
  if (waived) return `<skipped message="${xml(`until ${waived.expires}: ${waived.reason}`)}"/>`;
  const text = `${fileOf(report, finding)}:${line}\n${reason}\n${hint}`;
  if (level === 'note') return `<system-out>${xml(`${message}\n${text}`)}</system-out>`;
  return `<failure type="${level}" message="${xml(message)}">${xml(text)}</failure>`;
}
