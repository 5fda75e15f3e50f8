import { expect, test } from 'vitest';
import { printParityReport, readParityReport } from './report.ts';
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
    { ...report, result: 'equivalent', differences: [{ ...difference, cause: 'mode', code: 'DIFFERS_INVALID' }] },
  ],
  [
    'with a gap',
    { ...report, result: 'incomplete', differences: [], coverage: { ...report.coverage, notCovered: [gap] } },
  ],
])('a report %s is read as it was printed', (_title, given) => {
  expect(readParityReport('p.json', printParityReport(given))).toEqual(given);
});

test.each<[string, Readonly<Record<string, unknown>>, string]>([
  ['calls a difference equivalent', { result: 'equivalent' }, 'its content does not mean equivalent'],
  ['has no difference and is called different', { differences: [] }, 'its content does not mean different'],
  [
    'hides a gap',
    { differences: [], result: 'equivalent', coverage: { ...report.coverage, notCovered: [gap] } },
    'its content does not mean equivalent',
  ],
  ['has an unknown key', { accepted: true }, 'ParityReport has no key "accepted" in this format'],
  ['has a later format', { format: 2 }, 'format is not valid'],
  ['has another kind of digest', { observedDigest: 'x' }, 'observedDigest is not valid'],
  ['has the path of a file as its node', { node: '../../etc/cron.d/x' }, 'node is not valid'],
  ['has the colours of a terminal in its node', { node: 'a\u001B[31m' }, 'node is not valid'],
  [
    'has the colours of a terminal in a mode',
    { modes: { observed: ['iptables\u001B[31m'], desired: 'nftables' } },
    'modes is not valid',
  ],
  ['has an unknown mode', { modes: { observed: ['iptables'], desired: 'ebpf' } }, 'modes is not valid'],
  [
    'calls a difference one of modes, and does not say which',
    { result: 'equivalent', differences: [{ ...difference, cause: 'mode' }] },
    'difference 1111111111111111 has not what its cause, mode, needs',
  ],
  [
    'calls a difference one of modes, and has one mode',
    {
      result: 'equivalent',
      modes: { observed: ['nftables'], desired: 'nftables' },
      differences: [{ ...difference, cause: 'mode', code: 'DIFFERS_INVALID' }],
    },
    'difference 1111111111111111 has not what its cause, mode, needs',
  ],
  [
    'calls a difference one of versions, and does not say which',
    { differences: [{ ...difference, cause: 'version', code: 'DIFFERS_INVALID' }] },
    'difference 1111111111111111 has not what its cause, version, needs',
  ],
  ['has one id for two differences', { differences: [difference, difference] }, 'two of its differences have one id'],
])('a report is refused that %s', (_title, change, why) => {
  const text = printParityReport({ ...report, ...change });
  expect(readParityReport('p.json', text)).toMatchObject({
    code: 'PARITY_REPORT_INVALID',
    message: `Cannot read p.json: ${why}`,
  });
});

test.each(['', '[]', 'null', '{}'])('text that is no report is refused: %s', (text) => {
  expect(readParityReport('p.json', text)).toMatchObject({ code: 'PARITY_REPORT_INVALID' });
});

test('a report of before it had connections is read: its format has no other number', () => {
  const { connections: _connections, ...older } = {
    ...report,
    connections: { pairs: [], notCovered: { elsewhere: 0, left: 0 } },
  };
  expect(readParityReport('p.json', printParityReport(older))).toEqual(older);
});
