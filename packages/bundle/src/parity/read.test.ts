import { expect, test } from 'vitest';
import { printParityReport, readParityReport } from './read.ts';
import type { ParityReport } from './report.ts';

const difference = {
  id: '3f6c2a9be0d14788',
  frontend: '10.96.0.10:80/tcp',
  family: 'ipv4',
  services: ['shop/web'],
  source: { class: 'outside', network: '198.51.100.0/24', address: '198.51.100.7' },
  observed: 'dnat 10.244.1.5:8080',
  desired: 'masquerade dnat 10.244.1.5:8080',
  cause: 'config',
  packet: { from: '198.51.100.7', in: 'eth0', to: '10.96.0.10', port: 80, protocol: 'tcp' },
  alsoFrom: [],
  advice: 'Compare clusterCIDR',
} as const satisfies ParityReport['differences'][number];

const report: ParityReport = {
  node: 'node-a',
  bootId: '0e4f8f3e-6a0c-4ad8-a9f7-2d6fd5c8a5c1',
  observedDigest: '9'.repeat(64),
  version: '90f4c1d2e3a4b5c6',
  modes: { observed: ['iptables'], desired: 'nftables' },
  result: 'different',
  coverage: { frontends: 1, sources: 1, cases: 1, notCovered: [] },
  differences: [difference],
};
const gap = { what: '-A FORWARD -m u32 --u32 0 -j DROP', why: 'option --u32 is not read', cases: 1, matters: true };

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
