import { expect, test } from 'vitest';
import type { Json } from '@sluice/renderer/render/model/kube.ts';
import type { PolicyFinding } from '../policy/finding.ts';
import { sarifResultsMax } from '../../../cli/src/findings/sarif.ts';
import { printPolicy } from './policy/print.ts';
import { againstSarif } from './sarif.fixture.ts';

const finding: PolicyFinding = {
  code: 'EXTERNAL_IP',
  level: 'error',
  subject: 'shop/web',
  message: 'Cannot accept external IP 203.0.113.50',
  hint: 'Take it away',
  reason: 'CVE-2020-8554',
  path: 'profiles/default/services/shop/web.iptables',
  line: 3,
};

function logOf(findings: readonly PolicyFinding[], bundle = 'rendered'): Json {
  return JSON.parse(
    printPolicy({ result: { findings, losses: [], checked: ['bundle', 'change'] }, bundle }, 'sarif'),
  ) as Json;
}

test.each([
  ['no finding', []],
  ['an error', [finding]],
  ['a waived one', [{ ...finding, waived: { reason: 'ticket 7', expires: '2027-01-01' } }]],
  [
    'a warning and a note',
    [
      { ...finding, level: 'warning' },
      { ...finding, level: 'note', path: 'cluster.yaml' },
    ],
  ],
] satisfies readonly [string, readonly PolicyFinding[]][])('%s is SARIF 2.1.0', (_title, findings) => {
  expect(againstSarif(logOf(findings))).toEqual([]);
});

test.each(['./my rules/é', 'main:rendered/', '.', 'a%b#c?d'])(
  'makes relative references for the bundle %j',
  (bundle) => {
    expect(againstSarif(logOf([finding], bundle))).toEqual([]);
  },
);

test('the schema of this test rejects invalid SARIF', () => {
  const wrong = JSON.stringify(logOf([finding]))
    .replace('"startLine":3', '"startLine":0')
    .replace('"ruleId"', '"rule"')
    .replace('"uri":"', '"uri":"/');
  expect(againstSarif(JSON.parse(wrong) as Json)).toHaveLength(3);
});

interface SarifLog {
  readonly runs: readonly [{ readonly invocations: unknown; readonly results: readonly { readonly level: string }[] }];
}

test('keeps the worst of too many findings and counts the others', () => {
  const notes = Array.from({ length: sarifResultsMax }, (_, at) => ({
    ...finding,
    level: 'note' as const,
    line: at + 1,
  }));
  const cut = logOf([...notes, finding]);
  const [run] = (cut as unknown as SarifLog).runs;
  expect(run.results).toHaveLength(sarifResultsMax);
  expect(run.results[0]?.level).toBe('error');
  expect(JSON.stringify(run.invocations)).toContain('1 finding is left out');
  expect(againstSarif(cut)).toEqual([]);
});
