import { expect, test } from 'vitest';
import { printParityReport, readParityReport } from './read.ts';
import { differenceWith, gap, reportWith } from './report.fixture.ts';
import type { ParityReport } from './report.ts';

const difference = differenceWith({
  source: { class: 'outside', network: '198.51.100.0/24', address: '198.51.100.7' },
  packet: { from: '198.51.100.7', in: 'eth0', to: '10.96.0.10', port: 80, protocol: 'tcp' },
});
const report = reportWith({ differences: [difference] });

test.each<[string, ParityReport]>([
  ['with a difference', report],
  [
    'with a documented difference of modes',
    { ...report, result: 'equivalent', differences: [{ ...difference, cause: 'mode' }] },
  ],
  [
    'with a gap',
    { ...report, result: 'incomplete', differences: [], coverage: { ...report.coverage, notCovered: [gap] } },
  ],
])('a report %s is read as it was printed', (_title, given) => {
  expect(readParityReport('p.json', printParityReport(given))).toEqual(given);
});

test.each<[string, Partial<ParityReport> & Record<string, unknown>]>([
  ['calls a difference equivalent', { result: 'equivalent' }],
  ['has no difference and is called different', { differences: [] }],
  ['hides a gap', { differences: [], result: 'equivalent', coverage: { ...report.coverage, notCovered: [gap] } }],
  ['has an unknown key', { accepted: true }],
  ['has another kind of digest', { observedDigest: 'x' }],
])('a report is refused that %s', (_title, change) => {
  const text = printParityReport({ ...report, ...change });
  expect(readParityReport('p.json', text)).toMatchObject({ code: 'PARITY_REPORT_INVALID' });
});
