import type { ParityDifference, ParityReport } from '@sluice/bundle';
import { type FindingsFormat, printFindings } from '@sluice/cli';
import { diagnose, diagnosisFindings } from '@sluice/netfilter';
import { expect, test } from 'vitest';
import { parseJunit } from '../../../cli/src/findings/junit.fixture.ts';
import type { Proof } from '../prove/prove.ts';
import { printParity } from './parity/print.ts';
import { printProof } from './prove.ts';
import { againstSarif } from './sarif.fixture.ts';
import type { Json } from '@sluice/renderer/render/model/kube.ts';

/** JUnit files against the schema of Jenkins, with texts that could end an attribute or an element. */

const hostile = `a"/></testcase> & <evil x='1'> ]]> \u0007 \uD800 ü`;

const difference = (over: Partial<ParityDifference>): ParityDifference => ({
  id: '0123456789abcdef',
  frontend: '10.96.0.10:80/tcp',
  family: 'ipv4',
  services: ['shop/web'],
  source: { class: 'outside', address: '198.51.100.7' },
  observed: 'drop',
  desired: 'reject',
  cause: 'objects',
  packet: { from: '198.51.100.7', in: 'eth0', to: '10.96.0.10', port: 80, protocol: 'tcp' },
  alsoFrom: [],
  advice: 'Observe again',
  ...over,
});

const report: ParityReport = {
  node: 'node-a',
  observedDigest: 'a'.repeat(64),
  version: 'b'.repeat(16),
  modes: { observed: ['iptables'], desired: 'nftables' },
  result: 'different',
  coverage: {
    frontends: 1,
    sources: 1,
    cases: 3,
    notCovered: [
      { what: hostile, at: 'seen.json:3', why: hostile, cases: 1, matters: true },
      { what: 'sets', why: 'ipset is not installed', cases: 0, matters: false },
    ],
  },
  differences: [
    difference({}),
    difference({ cause: 'mode', code: 'DIFFERS_INVALID' }),
    difference({ cause: 'version', code: 'VERSION_ZERO_RANGE', services: [hostile], advice: hostile }),
    difference({ cause: 'foreign-rule', rule: hostile, observed: hostile, desired: hostile }),
  ],
};

test('a comparison of a node is JUnit of the schema: a test for each difference, each gap that matters, and the whole', () => {
  const of = { report, observed: 'seen.json', fileOf: () => undefined };
  const cases = parseJunit(printParity(of, 'junit'));
  const kinds = cases.map(({ children }) => children.map(({ name }) => name).join());
  expect(kinds).toEqual(['failure', 'skipped', 'failure', 'failure', 'failure', 'system-out']);
  expect(cases[2]?.children[0]?.attributes.get('type')).toBe('parity-version');
  const shown = hostile.replace('\u0007', '\uFFFD').replace('\uD800', '\uFFFD');
  expect(cases[3]?.children[0]?.text).toContain(`observed: ${shown}\n`);
  expect(cases[4]?.attributes.get('name')).toBe(`not covered: ${shown}: ${shown}`);
});

test('every format says what was compared, and what not', () => {
  const of = { report, observed: 'seen.json', fileOf: () => undefined };
  const extent = 'compared: 1 frontend, 1 class of sources, 3 cases; observed mode iptables, desired mode nftables';
  const rest = 'not covered (no case needs it): sets: ipset is not installed';
  const [whole] = parseJunit(printParity(of, 'junit')).slice(-1);
  const { runs } = JSON.parse(printParity(of, 'sarif')) as {
    runs: [{ properties: object; invocations: [{ toolExecutionNotifications: [{ message: { text: string } }] }] }];
  };
  for (const text of [
    printParity(of, 'text'),
    whole?.children[0]?.text ?? '',
    runs[0].invocations[0].toolExecutionNotifications[0].message.text,
  ]) {
    expect(text).toContain(extent);
    expect(text).toContain(rest);
    expect(text).not.toContain('\u0007');
  }
  expect(runs[0].properties).toEqual({
    result: report.result,
    version: report.version,
    modes: report.modes,
    coverage: report.coverage,
  });
});

test('the text calls nothing several that is one, and a foreign rule forges no line of it', () => {
  const [forged] = report.coverage.notCovered;
  const one = {
    ...report,
    coverage: { ...report.coverage, notCovered: [{ ...forged!, what: 'a\nb\u001B[31m' }] },
    base: { version: 'c'.repeat(16), known: 1 },
  };
  const text = printParity({ report: one, observed: 'seen.json', fileOf: () => undefined }, 'text');
  expect(text).toContain(`left out: 1 difference that version ${'c'.repeat(16)} has, too\n`);
  expect(text).toContain('(1 case)');
  // A name in a rule makes neither a line nor a colour.
  expect(text).toContain(': a?b?[31m: ');
});

const proof: Proof = {
  profiles: [{ profile: 'default', family: 'ipv4', services: 2, flows: 40 }],
  counterExamples: [],
  faults: [{ profile: hostile, family: 'ipv4', what: 'established', expected: 'accept', found: hostile }],
  unjudged: [{ profile: 'default', family: 'ipv6', what: 'all', nodes: [] }],
};

test('a proof is JUnit of the schema: what is wrong fails, what was not judged is skipped', () => {
  const cases = parseJunit(printProof(proof, 'junit'));
  expect(cases.map(({ children }) => children.map(({ name }) => name).join())).toEqual([
    'failure',
    'system-out',
    'skipped',
  ]);
  expect(cases[1]?.children[0]?.text).toContain('2 Services, 40 flows traced');
});

const diagnosis = diagnose(
  'shop/web',
  [
    { code: 'FOREIGN_DROP', certainty: 'certain', about: hostile, evidence: [hostile, 'seen'], fix: 'look' },
    { code: 'IPV6_OFF', certainty: 'note', evidence: [], fix: 'nothing' },
  ],
  [{ what: 'sets', because: hostile }],
);
const judged = {
  'sluice parity': (format: FindingsFormat) =>
    printParity({ report, observed: 'seen.json', fileOf: () => undefined }, format),
  'sluice prove': (format: FindingsFormat) => printProof(proof, format, () => 'rendered/base.iptables'),
  'sluiced doctor': (format: FindingsFormat) =>
    printFindings(diagnosisFindings({ name: 'sluiced', version: '1.2.3' }, diagnosis), format),
} as const;
const commands = Object.keys(judged) as readonly (keyof typeof judged)[];

test.each(commands)('%s is SARIF of the schema', (command) => {
  expect(againstSarif(JSON.parse(judged[command]('sarif')) as Json)).toEqual([]);
});

test.each(commands)('%s in Markdown is a table without foreign mark-up, and the verdict', (command) => {
  const lines = judged[command]('markdown').trimEnd().split('\n');
  const [verb] = command.split(' ').slice(-1);
  expect(lines.slice(0, 3)).toEqual([`## Sluice: ${verb}`, '', '| level | rule | about | what | where |']);
  const rows = lines.filter((line) => line.startsWith('| ') && !line.startsWith('| level'));
  for (const row of rows) expect(row.match(/(?<!\\)\|/g)).toHaveLength(6);
  expect(lines.at(-1)).toMatch(/^\*\*.+\*\*$/);
});

test('a diagnosis is JUnit of the schema: a cause fails, a note passes, what was not read is skipped', () => {
  const cases = parseJunit(judged['sluiced doctor']('junit'));
  const kinds = cases.map(({ children }) => children.map(({ name }) => name).join());
  expect(kinds).toEqual(['failure', 'system-out', 'skipped']);
});

const smallest =
  '<?xml version="1.0" encoding="UTF-8"?>\n<testsuites><testsuite name="a" tests="1"><testcase name="b"/></testsuite></testsuites>';

test('the smallest report is read', () => {
  expect(parseJunit(smallest)).toHaveLength(1);
});

test.each([
  ['tests="1"', 'tests="2"', '<testsuite> says tests=2, not 1'],
  ['name="b"', 'title="b"', '<testcase> has attribute title'],
  ['name="b"/>', 'name="b">', '</testsuite> closes <testcase>'],
  ['name="b"/>', 'name="a & b"/>', 'an & that is no reference'],
  ['name="b"/>', 'name="b">text</testcase>', '<testcase> has text: text'],
  ['<testcase name="b"/>', '<case name="b"/>', '<testsuite> has <case>'],
  ['name="a" ', '', '<testsuite> lacks attribute name'],
])('what the schema does not allow is found: %s → %s', (from, to, problem) => {
  expect(() => parseJunit(smallest.replace(from, to))).toThrow(problem);
});
