import { junitOf } from './junit.ts';
import { markdownOf } from './markdown.ts';
import { sarifOf } from './sarif.ts';
import { textOf } from './text.ts';
import type { PolicyReport } from './report.ts';

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
