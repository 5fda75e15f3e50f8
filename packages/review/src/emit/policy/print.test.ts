import { expect, test } from 'vitest';
import type { PolicyFinding } from '../../policy/finding.ts';
import { parseJunit } from '../../../../cli/src/findings/junit.fixture.ts';
import { type PolicyFormat, printPolicy } from './print.ts';

const finding: PolicyFinding = {
  code: 'EXTERNAL_IP',
  level: 'error',
  subject: 'shop/web',
  message: 'Cannot accept external IP 203.0.113.50: it is not in policy.externalIPs',
  hint: 'Take it away',
  reason: 'CVE-2020-8554',
  path: 'profiles/default/services/shop/web.iptables',
  line: 3,
};
const waived: PolicyFinding = {
  ...finding,
  subject: 'shop/api',
  waived: { reason: 'ticket 7', expires: '2027-01-01' },
};

function printed(findings: readonly PolicyFinding[], format: PolicyFormat, bundle = 'main:rendered/'): string {
  return printPolicy({ result: { findings, losses: [], checked: ['bundle'] }, bundle }, format);
}

interface Sarif {
  readonly version: string;
  readonly runs: readonly {
    readonly tool: { readonly driver: { readonly rules: readonly { readonly id: string }[] } };
    readonly results: readonly {
      readonly ruleId: string;
      readonly ruleIndex: number;
      readonly level: string;
      readonly message: { readonly text: string };
      readonly locations: readonly {
        readonly physicalLocation: {
          readonly artifactLocation: { readonly uri: string };
          readonly region: { readonly startLine: number };
        };
      }[];
      readonly partialFingerprints: Readonly<Record<string, string>>;
      readonly suppressions?: readonly { readonly kind: string; readonly justification: string }[];
    }[];
  }[];
}

test('SARIF names each rule once, points into the work tree and marks waived findings as suppressed', () => {
  const { version, runs } = JSON.parse(printed([finding, waived], 'sarif')) as Sarif;
  expect(version).toBe('2.1.0');
  const [run] = runs;
  const rules = run?.tool.driver.rules.map(({ id }) => id) ?? [];
  expect(new Set(rules).size).toBe(rules.length);
  for (const result of run?.results ?? []) {
    expect(rules[result.ruleIndex]).toBe(result.ruleId);
    expect(['none', 'note', 'warning', 'error']).toContain(result.level);
    expect(result.message.text).not.toBe('');
    expect(result.locations[0]?.physicalLocation).toEqual({
      artifactLocation: { uri: 'rendered/profiles/default/services/shop/web.iptables' },
      region: { startLine: 3 },
    });
  }
  expect(run?.results.map(({ suppressions }) => suppressions?.[0]?.kind)).toEqual([undefined, 'external']);
  expect(new Set(run?.results.map((result) => result.partialFingerprints['sluice/v1'])).size).toBe(2);
});

test('JUnit counts failures and skipped tests and escapes attributes', () => {
  const hostile = { ...finding, subject: `a"/><evil x='&\u0007`, message: ']]></testcase>' };
  const cases = parseJunit(printed([finding, waived, hostile], 'junit'));
  const count = (kind: string): number => cases.filter(({ children }) => children[0]?.name === kind).length;
  expect({ failures: count('failure'), skipped: count('skipped') }).toEqual({ failures: 2, skipped: 1 });
  expect(cases.map(({ attributes }) => attributes.get('name'))).toContain(`a"/><evil x='&\uFFFD: ]]></testcase>`);
});

test('Markdown escapes mark-up, links and mentions', () => {
  const text = printed(
    [{ ...waived, waived: { reason: '![x](http://e) @team <img> | a\n# b', expires: '2027-01-01' } }],
    'markdown',
  );
  const row = text.split('\n').find((line) => line.startsWith('| waived')) ?? '';
  expect(row).not.toMatch(/(?<!\\)!?\[x\]|@team|(?<!\\)<img|http:\/\/|(?<!\\)\| a/);
  expect(row.match(/(?<!\\)\|/g)).toHaveLength(6);
});

test('text ends with the counts', () => {
  expect(printed([finding, waived], 'text').split('\n').slice(-3)).toEqual([
    'Rules about changes were not checked: pass --base with the bundle that is replaced',
    '1 error, 1 waived',
    '',
  ]);
  expect(printed([], 'text')).toContain('No policy findings');
});
