import { sarifDocument, sarifResult, sarifResultsMax } from '../sarif-document.ts';
import { policyCodes, policyRules } from '../../review/policy/catalogue.ts';
import type { PolicyFinding } from '../../review/policy/finding.ts';
import { fileOf, type PolicyReport } from './report.ts';

/** The levels of SARIF. */
const levels = { error: 'error', warning: 'warning', note: 'note', off: 'none' } as const;

/**
 * SARIF 2.1.0, as code scanning takes it (OASIS sarif-v2.1.0, sections 3.14 to 3.27): every rule, one result for each finding, a waived one
 * with its suppression (3.35).
 */
export function sarifOf(report: PolicyReport): string {
  const rules = policyCodes.map((code) => ({
    id: code,
    shortDescription: { text: policyRules[code].title },
    fullDescription: { text: policyRules[code].reason },
    defaultConfiguration: { enabled: policyRules[code].level !== 'off', level: levels[policyRules[code].level] },
  }));
  const { shown, left } = mostSevere(report.result.findings);
  return sarifDocument({
    version: report.version,
    rules,
    results: shown.map((finding) => resultOf(report, finding)),
    left: {
      count: left,
      text: `${left} ${left === 1 ? 'finding is' : 'findings are'} left out: the limit of a run is ${sarifResultsMax}. The text format of sluice policy prints all.`,
    },
  });
}

const order: readonly PolicyFinding['level'][] = ['error', 'warning', 'note'];

/** All findings in their order, or the worst ones above the limit. */
function mostSevere(findings: readonly PolicyFinding[]): {
  readonly shown: readonly PolicyFinding[];
  readonly left: number;
} {
  if (findings.length <= sarifResultsMax) return { shown: findings, left: 0 };
  const rank = ({ waived, level }: PolicyFinding): number => (waived ? order.length : order.indexOf(level));
  const shown = findings.toSorted((a, b) => rank(a) - rank(b)).slice(0, sarifResultsMax);
  return { shown, left: findings.length - shown.length };
}

function resultOf(report: PolicyReport, finding: PolicyFinding): object {
  const { code, level, subject, message, hint, line, waived } = finding;
  const text = `${subject}: ${message}. ${hint}.`;
  return {
    ...sarifResult({
      ruleId: code,
      ruleIndex: policyCodes.indexOf(code),
      level: levels[level],
      text,
      file: fileOf(report, finding),
      line,
      identity: `${code}\n${subject}\n${message}`,
    }),
    ...(waived === undefined
      ? {}
      : {
          suppressions: [
            { kind: 'external', status: 'accepted', justification: `until ${waived.expires}: ${waived.reason}` },
          ],
        }),
  };
}
