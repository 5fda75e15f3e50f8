import { isProblem, type ParityReport, printParityReport, readParityReport } from '@sluice/bundle';
import { expect, test } from 'vitest';
import { printParity } from '../emit/parity/print.ts';
import { bundleOf } from '../example.fixture.ts';
import { observe, savedFiles } from './observed.fixture.ts';
import { parityOf } from './parity.ts';

const node = 'node-1';

/** Compares what a node of an example would have with the bundle of another, beside tracked connections. */
function compared(
  [observed, desired]: readonly [string, string],
  pairs: readonly (readonly ['tcp' | 'udp', string, string, number])[],
): ParityReport {
  const connections = {
    left: 3,
    pairs: pairs.map(([protocol, frontend, endpoint, count]) => ({ protocol, frontend, endpoint, count })),
  };
  const seen = { ...observe(node, savedFiles(bundleOf(observed), node)), connections };
  const report = parityOf(bundleOf(desired), seen, node);
  return report;
}

const outcomes = ({ connections }: ParityReport): readonly (readonly [string, string, number, string])[] =>
  (connections?.pairs ?? []).map(({ frontend, endpoint, count, after }) => [frontend, endpoint, count, after]);

test('connections stay with endpoints of the bundle; those to others are stale, flows of UDP are removed', () => {
  const dns = compared(
    ['04-affinity-and-udp', '04-affinity-and-udp'],
    [
      ['tcp', '10.96.0.10:53', '10.244.1.2:53', 4],
      ['tcp', '10.96.0.10:53', '10.244.9.9:53', 2],
      ['udp', '10.96.0.10:53', '10.244.2.2:53', 7],
      ['udp', '10.96.0.10:53', '10.244.9.9:53', 1],
      ['tcp', '203.0.113.99:8443', '10.244.1.9:443', 5],
    ],
  );
  expect(dns.result).toBe('equivalent');
  expect(outcomes(dns)).toEqual([
    ['10.96.0.10:53/tcp', '10.244.1.2:53', 4, 'kept'],
    ['10.96.0.10:53/tcp', '10.244.9.9:53', 2, 'stale'],
    ['10.96.0.10:53/udp', '10.244.2.2:53', 7, 'kept'],
    ['10.96.0.10:53/udp', '10.244.9.9:53', 1, 'removed'],
  ]);
  expect(dns.connections?.pairs[0]?.services).toEqual(['kube-system/kube-dns']);
  expect(dns.connections?.notCovered).toEqual({ elsewhere: 5, left: 3 });
});

test('at a frontend that the bundle does not have, flows of UDP are stale: sluiced takes them for those of another program', () => {
  const gone = compared(['04-affinity-and-udp', '02-node-port'], [['udp', '10.96.0.10:53', '10.244.2.2:53', 1]]);
  expect(outcomes(gone)).toEqual([['10.96.0.10:53/udp', '10.244.2.2:53', 1, 'stale']]);
});

test('a node port is one frontend at any address of the node', () => {
  const ports = compared(
    ['02-node-port', '02-node-port'],
    [
      ['tcp', '192.0.2.11:30080', '10.244.1.5:8080', 1],
      ['tcp', '127.0.0.1:30080', '10.244.2.5:8080', 1],
      ['tcp', '192.0.2.12:30080', '10.244.2.5:8080', 1],
    ],
  );
  expect(outcomes(ports)).toEqual([
    ['node port 30080/tcp', '10.244.1.5:8080', 1, 'kept'],
    ['localhost 30080/tcp', '10.244.2.5:8080', 1, 'kept'],
  ]);
  expect(ports.connections?.notCovered.elsewhere).toBe(1);
});

test('what IPVS forwards ends with a move to another mode, and stays in mode ipvs', () => {
  const pairs = [['tcp', '10.96.0.20:80', '10.244.1.7:8080', 6]] as const;
  expect(outcomes(compared(['10-ipvs', '02-node-port'], pairs))).toEqual([
    ['10.96.0.20:80/tcp', '10.244.1.7:8080', 6, 'ends'],
  ]);
  expect(outcomes(compared(['10-ipvs', '10-ipvs'], pairs))).toEqual([
    ['10.96.0.20:80/tcp', '10.244.1.7:8080', 6, 'kept'],
  ]);
});

test('text and JSON have them, and a report without them says nothing of them', () => {
  const report = compared(
    ['04-affinity-and-udp', '04-affinity-and-udp'],
    [
      ['tcp', '10.96.0.10:53', '10.244.1.2:53', 4],
      ['udp', '10.96.0.10:53', '10.244.9.9:53', 2],
    ],
  );
  const of = { report, observed: 'seen.json', fileOf: () => undefined };
  expect(printParity(of, 'text')).toContain(
    `connections: 6 tracked, 4 stay with their endpoints; 3 behind the limit, not covered
    removed 2: 10.96.0.10:53/udp (kube-system/kube-dns) → 10.244.9.9:53: the bundle has no such endpoint there`,
  );
  const read = readParityReport('report.json', printParityReport(report));
  expect(isProblem(read) ? read : read.connections).toEqual(report.connections);
  const { connections: _connections, ...without } = report;
  expect(printParity({ ...of, report: without }, 'text')).not.toContain('connections');
});
