import { expect, test } from 'vitest';
import type { Json } from '../../render/model/kube.ts';
import { checkSchema, printPath, type Schema } from '../../load/schema/schema.ts';
import type { PolicyFinding } from '../../review/policy/finding.ts';
import { sarifResultsMax } from '../sarif-document.ts';
import { sarifOf } from './sarif.ts';

// The part of sarif-schema-2.1.0.json (OASIS, errata 01) that a run of sluice uses. As there, no object takes a key that is not listed.

const text: Schema = { type: 'string', pattern: '\\S' };
const object = (properties: Schema['properties'], required: readonly string[]): Schema => ({
  type: 'object',
  properties: properties ?? {},
  required,
  additionalProperties: false,
});
const list = (items: Schema): Schema => ({ type: 'array', items });
const choice = (...values: readonly string[]): Schema => ({ type: 'string', enum: values });

const level = choice('none', 'note', 'warning', 'error');
const message = object({ text }, ['text']);
const descriptor = object(
  {
    id: text,
    shortDescription: message,
    fullDescription: message,
    defaultConfiguration: object({ enabled: { type: 'boolean' }, level }, []),
  },
  ['id'],
);
const location = object(
  {
    physicalLocation: object(
      {
        // A relative reference (RFC 3986, 4.2): no scheme, no root, no step up, nothing that is not encoded.
        artifactLocation: object(
          {
            uri: {
              type: 'string',
              pattern: "^(?!/|\\.\\.?/|[a-zA-Z][a-zA-Z0-9+.-]*:)(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-F]{2})+$",
            },
          },
          [],
        ),
        region: object({ startLine: { type: 'integer', minimum: 1 } }, []),
      },
      [],
    ),
  },
  [],
);
const result = object(
  {
    ruleId: text,
    ruleIndex: { type: 'integer', minimum: -1 },
    level,
    message,
    locations: list(location),
    partialFingerprints: { type: 'object', additionalProperties: text },
    suppressions: list(
      object(
        {
          kind: choice('inSource', 'external'),
          status: choice('accepted', 'underReview', 'rejected'),
          justification: text,
        },
        ['kind'],
      ),
    ),
  },
  ['message'],
);
const notification = object({ level, message }, ['message']);
const log = object(
  {
    $schema: text,
    version: { type: 'string', const: '2.1.0' },
    runs: list(
      object(
        {
          tool: object({ driver: object({ name: text, semanticVersion: text, rules: list(descriptor) }, ['name']) }, [
            'driver',
          ]),
          columnKind: choice('utf16CodeUnits', 'unicodeCodePoints'),
          invocations: list(
            object({ executionSuccessful: { type: 'boolean' }, toolExecutionNotifications: list(notification) }, [
              'executionSuccessful',
            ]),
          ),
          results: list(result),
        },
        ['tool'],
      ),
    ),
  },
  ['version', 'runs'],
);

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
    sarifOf({ result: { findings, losses: [], checked: ['bundle', 'change'] }, bundle, version: '0.1.0' }),
  ) as Json;
}

const against = (value: Json): readonly string[] =>
  checkSchema(log, value, { nullIsUnset: false }).map(({ path, why }) => `${printPath(path)}: ${why}`);

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
  expect(against(logOf(findings))).toEqual([]);
});

test.each(['./my rules/é', 'main:rendered/', '.', 'a%b#c?d'])(
  'makes relative references for the bundle %j',
  (bundle) => {
    expect(against(logOf([finding], bundle))).toEqual([]);
  },
);

test('the schema of this test rejects invalid SARIF', () => {
  const wrong = JSON.stringify(logOf([finding]))
    .replace('"startLine":3', '"startLine":0')
    .replace('"ruleId"', '"rule"')
    .replace('"uri":"', '"uri":"/');
  expect(against(JSON.parse(wrong) as Json)).toHaveLength(3);
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
  expect(against(cut)).toEqual([]);
});
