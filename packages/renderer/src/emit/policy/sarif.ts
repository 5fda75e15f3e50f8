import { hash } from 'node:crypto';
import { policyCodes, policyRules } from '../../review/policy/catalogue.ts';
import type { PolicyFinding } from '../../review/policy/finding.ts';
import { fileOf, type PolicyReport } from './report.ts';

/** The levels of SARIF. */
const levels = { error: 'error', warning: 'warning', note: 'note', off: 'none' } as const;

/** Code scanning of GitHub refuses a run with more results than this, and shows the worst 5,000 of them. */
export const sarifResultsMax = 25_000;

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
  const document = {
    $schema: 'https://json.schemastore.org/sarif-2.1.0.json',
    version: '2.1.0',
    runs: [
      {
        tool: { driver: { name: 'sluice', semanticVersion: report.version, rules } },
        columnKind: 'utf16CodeUnits',
        invocations: [invocationOf(left)],
        results: shown.map((finding) => resultOf(report, finding)),
      },
    ],
  };
  return `${JSON.stringify(document, null, 2)}\n`;
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

/** Reports omitted findings (3.20.21), so that a truncated file does not look complete. */
function invocationOf(left: number): object {
  if (left === 0) return { executionSuccessful: true };
  const text = `${left} ${left === 1 ? 'finding is' : 'findings are'} left out: the limit of a run is ${sarifResultsMax}. The text format of sluice policy prints all.`;
  return { executionSuccessful: true, toolExecutionNotifications: [{ level: 'warning', message: { text } }] };
}

function resultOf(report: PolicyReport, finding: PolicyFinding): object {
  const { code, level, subject, message, hint, line, waived } = finding;
  const text = `${subject}: ${message}. ${hint}.`;
  return {
    ruleId: code,
    ruleIndex: policyCodes.indexOf(code),
    level: levels[level],
    message: { text },
    locations: [
      {
        physicalLocation: {
          artifactLocation: { uri: uriOf(fileOf(report, finding)) },
          region: { startLine: line },
        },
      },
    ],
    // Keeps the identity of an alert when its line moves.
    partialFingerprints: { 'sluice/v1': hash('sha256', `${code}\n${subject}\n${message}`, 'hex').slice(0, 32) },
    ...(waived === undefined
      ? {}
      : {
          suppressions: [
            { kind: 'external', status: 'accepted', justification: `until ${waived.expires}: ${waived.reason}` },
          ],
        }),
  };
}

/** A relative reference: RFC 3986 leaves these characters alone in a path. */
function uriOf(path: string): string {
  return path.split('/').map(encodeURIComponent).join('/');
}
