// @module-tag all
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parse, stringify } from 'yaml';
import { judged } from './resource-schemas.ts';

/** What `integrations/prometheus` has for the operator of Prometheus, against the schemas of its resources. */

const integration = join(import.meta.dirname, '../../integrations/prometheus');
const monitors = readFileSync(join(integration, 'servicemonitor.yaml'), 'utf8');

/** As the comment of rules.yaml says. */
const rule = stringify({
  apiVersion: 'monitoring.coreos.com/v1',
  kind: 'PrometheusRule',
  metadata: { name: 'sluice' },
  spec: parse(readFileSync(join(integration, 'rules.yaml'), 'utf8')) as object,
});

test.for([
  ['servicemonitor.yaml', monitors, 'Valid: 4, Invalid: 0, Errors: 0, Skipped: 0'],
  ['rules.yaml below a PrometheusRule', rule, 'Valid: 1, Invalid: 0, Errors: 0, Skipped: 0'],
  ['a misspelt field', monitors.replace('relabelings:', 'relabeling:'), 'Valid: 3, Invalid: 1'],
  ['an interval that is none', monitors.replace('interval: 30s', 'interval: often'), 'Valid: 3, Invalid: 1'],
  ['a rule with a misspelt field', rule.replace('annotations:', 'annotation:'), 'Valid: 0, Invalid: 1'],
] as const)('kubeconform judges %s', { timeout: 120_000 }, async ([, text, expected], context) => {
  expect(await judged(context, text, ['Prometheus’ operator'])).toContain(expected);
});
