import { hash } from 'node:crypto';
import type { Finding, FindingRule, Findings } from './findings.ts';

/** Code scanning of GitHub refuses a run with more results than this, and shows the worst 5,000 of them. */
export const sarifResultsMax = 25_000;

/**
 * SARIF 2.1.0, as code scanning takes it (OASIS sarif-v2.1.0, sections 3.14 to 3.27): one run with every rule and one result for each finding,
 * an excused one with its suppression (3.35). Omitted results are reported (3.20.21), so that a truncated file does not look complete.
 */
export function sarifOf({ command, version, rules, findings, id, closing, properties }: Findings): string {
  const shown = mostSevere(findings);
  const left = findings.length - shown.length;
  const notifications = [
    ...(left === 0 ? [] : [notification('warning', leftText(left, command))]),
    ...(closing.length === 0 ? [] : [notification('note', closing.join('\n'))]),
  ];
  const invocation = {
    executionSuccessful: true,
    ...(notifications.length === 0 ? {} : { toolExecutionNotifications: notifications }),
  };
  const ids = rules.map((rule) => rule.id);
  const run = {
    tool: { driver: { name: 'sluice', semanticVersion: version, rules: rules.map(descriptorOf) } },
    ...(id === undefined ? {} : { automationDetails: { id } }),
    columnKind: 'utf16CodeUnits',
    invocations: [invocation],
    ...(properties === undefined ? {} : { properties }),
    results: shown.map((finding) => resultOf(finding, ids.indexOf(finding.rule))),
  };
  const document = { $schema: 'https://json.schemastore.org/sarif-2.1.0.json', version: '2.1.0', runs: [run] };
  return `${JSON.stringify(document, null, 2)}\n`;
}

const notification = (level: 'warning' | 'note', text: string) => ({ level, message: { text } });

const leftText = (count: number, command: string): string =>
  `${count} ${count === 1 ? 'finding is' : 'findings are'} left out: the limit of a run is ${sarifResultsMax}. The text format of ${command} prints all.`;

const descriptorOf = ({ id, title, reason, level }: FindingRule): object => ({
  id,
  shortDescription: { text: title },
  ...(reason === undefined ? {} : { fullDescription: { text: reason } }),
  ...(level === undefined ? {} : { defaultConfiguration: { enabled: level !== 'none', level } }),
});

const ranks = { error: 0, warning: 1, note: 2 } as const;

/** All findings in their order, or the worst ones above the limit. */
function mostSevere(findings: readonly Finding[]): readonly Finding[] {
  if (findings.length <= sarifResultsMax) return findings;
  const rank = ({ excused, level }: Finding): number => (excused ? 3 : ranks[level]);
  return findings.toSorted((a, b) => rank(a) - rank(b)).slice(0, sarifResultsMax);
}

function resultOf(
  { rule, level, about, message, details, place, identity, excused }: Finding,
  ruleIndex: number,
): object {
  return {
    ruleId: rule,
    ruleIndex,
    level,
    message: { text: [`${about}: ${message}`, ...details].join('\n') },
    ...(place && { locations: [locationOf(place)] }),
    partialFingerprints: { 'sluice/v1': hash('sha256', identity, 'hex').slice(0, 32) },
    ...(excused && { suppressions: [{ kind: 'external', status: 'accepted', justification: excused.why }] }),
  };
}

const locationOf = ({ file, line }: NonNullable<Finding['place']>): object => ({
  physicalLocation: { artifactLocation: { uri: uriOf(file) }, region: { startLine: line } },
});

/** A relative reference: RFC 3986 leaves these characters alone in a path. */
function uriOf(path: string): string {
  return path.split('/').map(encodeURIComponent).join('/');
}
