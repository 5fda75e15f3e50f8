import { describe, expect, test } from 'vitest';
import { reportSummary, summaryLinesMax } from '../../packages/review/src/emit/report/summary.ts';
import type { Effect } from '../../packages/review/src/report/effect.ts';
import { severities } from '../../packages/review/src/report/severity.ts';
import { policyCodes } from '../../packages/review/src/policy/catalogue.ts';
import { shopReport } from './shop.ts';

const report = shopReport();
const options = { bundle: 'rendered', reportUrl: 'https://ci.example/report' };
const linesOf = (text: string): readonly string[] => text.trimEnd().split('\n');

test('the summary leads with the severities, worst first', () => {
  const lines = linesOf(reportSummary(report, options));
  expect(lines.slice(0, 2)).toEqual([
    '<!-- sluice: report -->',
    '### Sluice: payments/ledger loses its last endpoint, 3 Services open to the outside, shop/api changes its source address',
  ]);
  expect(lines.filter((line) => line.startsWith('- ') && line.includes('**')).slice(0, 8)).toEqual([
    '- 🛑 **1 loses its last endpoint**',
    '- 🔺 **3 open to the outside**',
    '- 🔶 **1 changes its source address**',
    '- ❌ **1 breaks connections or sessions**',
    '- 🔻 **1 no longer answers somewhere**',
    '- 🔵 **14 move connections**',
    '- ➕ **1 adds inside the cluster**',
    '- ⬜ **1 changes settings**',
  ]);
  const details = lines.indexOf('<details><summary>What changes</summary>');
  expect(lines.slice(details + 1, details + 3)).toEqual([
    '',
    '- 🛑 has no endpoint left: connections are rejected – `payments/ledger` http 80/TCP',
  ]);
  expect(lines.at(-1)).toBe('[The full report](<https://ci.example/report>)');
});

test('a bundle that does not change has a summary of one line', () => {
  const diff = { ...report.diff, services: [], flows: [], settings: [], profiles: [] };
  const { policy: _policy, ...same } = { ...report, diff, effects: [] };
  expect(linesOf(reportSummary(same, { bundle: 'rendered' }))).toEqual([
    '<!-- sluice: report -->',
    '### Sluice: Nothing changes',
  ]);
});

test('no sentence is there twice', () => {
  const sentences = linesOf(reportSummary(report, options)).map((line) => line.replaceAll(/`[^`]*`/g, ''));
  expect(sentences.filter((line, at) => line.length > 10 && sentences.indexOf(line) !== at)).toEqual([]);
  expect(sentences.filter((line) => line.includes('last endpoint'))).toHaveLength(3);
});

describe('whatever changes', () => {
  const subjects = Array.from({ length: 10_000 }, (_, at) => ({
    name: `${'n'.repeat(63)}/${'x'.repeat(58)}${at}`,
    isService: true,
    details: [`${'detail '.repeat(50)}${at}`],
  }));
  const effects = severities.flatMap((severity) =>
    Array.from({ length: 40 }, (_, at): Effect => ({ severity, sentence: `does thing ${at}`, subjects })),
  );
  const [finding] = report.policy!.findings;
  const findings = policyCodes.flatMap((code) =>
    subjects.slice(0, 100).map(({ name }) => ({ ...finding!, code, subject: name, level: 'error' as const })),
  );
  const text = reportSummary({ ...report, effects, policy: { ...report.policy!, findings } }, options);

  test('it stays under its lines, and names what is left out', () => {
    expect(linesOf(text).length).toBeLessThanOrEqual(summaryLinesMax);
    expect(text.length).toBeLessThan(60_000);
    expect(text).toMatch(/… and \d+ more sentences/);
    expect(text).toMatch(/… and \d+ more rules/);
    expect(text).toContain('(10000) – ');
    expect(text).toContain('- ⬜ does thing 0 (10000) – ');
    expect(text).toContain(' and 9994 more');
  });
});

test.each(['](https://x.example)', '<img src=x onerror=alert(1)>', '`| a |`', '@everyone', '<!--'])(
  'the name %j stays a name',
  (name) => {
    const effects: readonly Effect[] = [
      {
        severity: 'last-endpoint',
        sentence: 'loses its last endpoint',
        subjects: [{ name, isService: true, details: [name] }],
      },
    ];
    const outside = reportSummary({ ...report, effects }, { bundle: 'rendered' })
      .split('\n')
      .slice(1)
      .filter((line) => !/^<details><summary>[A-Z][a-z ]+(: \d+ [a-z0-9, ]+)?<\/summary>$|^<\/details>$/.test(line))
      .join('\n')
      .replaceAll(/(?<!\\)`[^`\n]*`/g, '');
    expect(outside).not.toMatch(/(?<!\\)<(?!u200b)|(?<!\\)\]\(|@(?!\u200B)/);
  },
);
